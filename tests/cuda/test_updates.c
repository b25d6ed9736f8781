/* What changes parameters on the CUDA device against the CPU, bit for bit: optimizers on blocks of
 * odd sizes, and the server rules on shards of any length and alignment. The same bits, because
 * workers of one job may be GPUs and CPUs, and must stay equal. On a GPU, square roots and
 * divisions are those of IEEE as well (nvcc's default), so the test is the same there.
 */
#include "tests/cuda/judge.h"

/* Tensors of 1 to 600 floats, none a multiple of what the device aligns to, weights in two orders.
 */
static const char odd[] =
    "{\"input\": [5, 4, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 7, "
    "\"kernel\": [3, 2]}, {\"type\": \"batch_norm\"},"
    "{\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 11}, {\"type\": \"tanh\"}, "
    "{\"type\": \"dense\", \"units\": 1},"
    "{\"type\": \"dense\", \"units\": 5}]}";

static void random_block(float *x, size_t n, uint64_t stream, double size)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(size * rng_normal(4, stream, i));
    }
}

static void same_bits(struct judge *j, enum dev_block b, const char *what, int step)
{
    const float *got = j->on_gpu.host[b], *expected = j->on_cpu.host[b];
    judge_fetch(j, b);
    for (size_t i = 0; i < j->on_cpu.count[b]; i++) {
        if (memcmp(&got[i], &expected[i], sizeof(*got)) != 0) {
            fail_msg("step %d, %s[%zu] is %.9g and the CPU's is %.9g", step, what, i,
                     (double)got[i], (double)expected[i]);
        }
    }
}

static void check_optimizer(const char *model, struct optimizer_spec o)
{
    struct judge *j = judge_new(model, &o, "fp32");
    for (int step = 1; step <= 4; step++) {
        random_block(j->on_cpu.host[DEV_GRADS], j->net.n_params, (uint64_t)step,
                     step == 3 ? 0.01 : 1);
        judge_copy(j, DEV_GRADS);
        judge_ok(j, j->cpu->ops->update(&j->on_cpu, 0.1 / step, 0.75, &j->e));
        judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.1 / step, 0.75, &j->e));
        same_bits(j, DEV_PARAMS, "parameter", step);
        same_bits(j, DEV_OPTIM, "state", step);
    }
    judge_free(j);
}

static void optimizers_give_the_cpus_bits(void **state)
{
    static const struct optimizer_spec all[] = {
        {.type = CAT_OPTIMIZER_SGD},
        {.type = CAT_OPTIMIZER_SGD, .weight_decay = 0.01},
        {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.01},
        {.type = CAT_OPTIMIZER_SGD, .momentum = 0.8, .weight_decay = 0.01, .nesterov = true},
        {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 1.5},
        {.type = CAT_OPTIMIZER_SGD, .clip_norm = 1e6},
        {.type = CAT_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {.type = CAT_OPTIMIZER_ADAM,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .weight_decay = 0.1,
         .clip_norm = 0.5},
        {.type = CAT_OPTIMIZER_ADAMW,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .weight_decay = 0.1},
        {.type = CAT_OPTIMIZER_ADAMW, .beta1 = 0, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        check_optimizer(odd, all[i]);
    }
    check_optimizer("\"mlp\"", all[4]); /* several chunks of the gradient's length */
}

/* What a restored or averaged job stores is what the next step goes on from. */
static void stored_optimizer_state_goes_on_where_it_was(void **state)
{
    struct optimizer_spec o = {
        .type = CAT_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    struct judge *j = judge_new(odd, &o, "fp32");
    for (int step = 0; step < 3; step++) {
        random_block(j->on_cpu.host[DEV_GRADS], j->net.n_params, (uint64_t)step, 1);
        judge_ok(j, j->cpu->ops->update(&j->on_cpu, 0.1, 1, &j->e));
    }
    judge_copy(j, DEV_PARAMS);
    judge_copy(j, DEV_OPTIM);
    judge_copy(j, DEV_GRADS);
    judge_ok(j, j->cpu->ops->update(&j->on_cpu, 0.1, 1, &j->e));
    judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.1, 1, &j->e));
    same_bits(j, DEV_PARAMS, "parameter", 4);
    same_bits(j, DEV_OPTIM, "state", 4);
    judge_free(j);
}

static void parts_of_a_block_are_stored_and_fetched_alone(void **state)
{
    struct judge *j = judge_new(odd, NULL, "fp32");
    size_t n = j->net.n_params;
    float *was = malloc(n * sizeof(float)), *mirror = j->on_gpu.host[DEV_PARAMS];
    memcpy(was, mirror, n * sizeof(float));
    for (size_t first = 0; first < n; first += 37) {
        size_t part = n - first < 23 ? n - first : 23;
        for (size_t i = 0; i < n; i++) {
            mirror[i] = (float)i;
        }
        judge_ok(j, j->gpu->ops->store(&j->on_gpu, DEV_PARAMS, first, part, &j->e));
        memset(mirror, 0x7f, n * sizeof(float));
        judge_ok(j, j->gpu->ops->fetch(&j->on_gpu, DEV_PARAMS, first, part, &j->e));
        for (size_t i = 0; i < n; i++) {
            bool inside = i >= first && i < first + part;
            uint32_t untouched = 0x7f7f7f7f, bits;
            memcpy(&bits, &mirror[i], sizeof(bits));
            assert_true(inside ? mirror[i] == (float)i : bits == untouched);
        }
    }
    judge_fetch(j, DEV_PARAMS);
    for (size_t i = 0; i < n; i++) {
        assert_true(mirror[i] == (i % 37 < 23 ? (float)i : was[i]));
    }
    assert_true(j->gpu->ops->fetch(&j->on_gpu, DEV_PARAMS, n - 1, 2, &j->e) < 0);
    assert_true(j->gpu->ops->store(&j->on_gpu, DEV_PARAMS, n + 1, 0, &j->e) < 0);
    free(was);
    judge_free(j);
}

/* ---- server rules ---------------------------------------------------------------------------- */

enum { ARRAYS = 6, W = 0, V, M2, G, PULLED, AFTER };

struct shard {
    struct judge *j;
    float *host[ARRAYS];
    uint8_t *decay;
    struct judge_memory memory[ARRAYS], flags;
    size_t n, skip; /* floats before the shard: its alignment */
};

static struct shard *shard_new(struct judge *j, size_t n, size_t skip)
{
    struct shard *s = calloc(1, sizeof(*s));
    s->j = j;
    s->n = n;
    s->skip = skip;
    for (int k = 0; k < ARRAYS; k++) {
        s->host[k] = calloc(n + 1, sizeof(float));
        for (size_t i = 0; i < n; i++) {
            s->host[k][i] =
                k == M2 ? (float)rng_double(1, 3, i) : (float)rng_normal(1, (uint64_t)k, i);
        }
        s->memory[k] = judge_alloc((n + skip) * sizeof(float) + 4);
        judge_upload(&s->memory[k], skip * sizeof(float), s->host[k], n * sizeof(float));
    }
    s->decay = calloc(n + 1, 1);
    for (size_t i = 0; i < n; i++) {
        s->decay[i] = i % 3 != 0;
    }
    s->flags = judge_alloc(n + 4);
    judge_upload(&s->flags, 0, s->decay, n);
    return s;
}

static float *there(struct shard *s, int k)
{
    return (float *)s->memory[k].at + s->skip;
}

static void check_rule(struct judge *j, enum rule rule, size_t n, size_t skip, bool velocity,
                       bool adaptive, bool decay)
{
    static const char *const names[RULES] = {"sgd", "dc-asgd", "trust"};
    struct shard *s = shard_new(j, n, skip);
    struct rule_args a = {.lr = 0.1f,
                          .factor = 0.75f,
                          .momentum = 0.9f,
                          .weight_decay = 0.01f,
                          .tau = 3,
                          .p0 = 0.04f,
                          .p1 = 0.95f,
                          .p2 = 1e-7f};
    struct rule_args b = a;
    struct rule_state host = {s->host[W],
                              velocity ? s->host[V] : NULL,
                              adaptive ? s->host[M2] : NULL,
                              decay ? s->decay : NULL,
                              n,
                              NULL};
    struct rule_state device = {there(s, W),
                                velocity ? there(s, V) : NULL,
                                adaptive ? there(s, M2) : NULL,
                                decay ? s->flags.at : NULL,
                                n,
                                NULL};
    a.g = s->host[G];
    a.pulled = s->host[PULLED];
    b.g = there(s, G);
    b.pulled = there(s, PULLED);
    for (int arrival = 0; arrival < 2; arrival++) {
        rule_apply(rule, &host, &a);
        judge_ok(j, j->gpu->ops->rules->apply(j->gpu, rule, &device, &b, &j->e));
        host.from = s->host[W]; /* the second update's result stands elsewhere */
        device.from = there(s, W);
        host.w = s->host[AFTER];
        device.w = there(s, AFTER);
    }
    float *got = calloc(n + 1, sizeof(float));
    for (int k = 0; k < ARRAYS; k++) {
        judge_download(&s->memory[k], skip * sizeof(float), got, n * sizeof(float));
        for (size_t i = 0; i < n; i++) {
            double size = fabs((double)s->host[k][i]);
            assert_near((double)got[i], (double)s->host[k][i], 1e-6 * (1 + size), names[rule], i);
        }
    }
    free(got);
    for (int k = 0; k < ARRAYS; k++) {
        judge_give_back(&s->memory[k]);
        free(s->host[k]);
    }
    judge_give_back(&s->flags);
    free(s->decay);
    free(s);
}

/* Within 1e-6: the CPU's loops are compiled for several instruction sets, some of which fuse a
 * product and a sum. */
static void server_rules_match_at_odd_lengths_and_alignments(void **state)
{
    static const size_t lengths[] = {1, 3, 4, 257, 1003};
    struct judge *j = judge_new(odd, NULL, "fp32");
    for (enum rule rule = 0; rule < RULES; rule++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            for (int way = 0; way < 8; way++) {
                check_rule(j, rule, lengths[i], i % 3 == 2 ? 1 : 0, rule == RULE_TRUST || way & 1,
                           (way & 2) && rule == RULE_DC_ASGD, way & 4);
            }
        }
    }
    judge_free(j);
}

static void a_rule_that_cannot_be_started_is_a_sentence(void **state)
{
    const struct standin_control *c = judge_need_control();
    struct judge *j = judge_new("\"mlp\"", NULL, "fp32");
    struct judge_memory w = judge_alloc(40), g = judge_alloc(40);
    struct rule_state s = {.w = w.at, .n = 10}; /* eight in packs, two behind them */
    struct rule_args a = {.g = g.at, .lr = 0.1f, .factor = 1};
    c->fail_at(0);
    judge_ok(j, j->gpu->ops->rules->apply(j->gpu, RULE_SGD, &s, &a, &j->e));
    long calls = c->calls();
    assert_true(calls >= 3);
    for (long n = 1; n <= calls; n++) {
        c->fail_at(n);
        assert_int_equal(j->gpu->ops->rules->apply(j->gpu, RULE_SGD, &s, &a, &j->e), -ERR_DEVICE);
        assert_non_null(strstr(j->e.message, "cannot apply a rule"));
    }
    c->fail_at(0);
    judge_give_back(&w);
    judge_give_back(&g);
    judge_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_give_the_cpus_bits),
        cmocka_unit_test(stored_optimizer_state_goes_on_where_it_was),
        cmocka_unit_test(parts_of_a_block_are_stored_and_fetched_alone),
        cmocka_unit_test(a_rule_that_cannot_be_started_is_a_sentence),
        cmocka_unit_test(server_rules_match_at_odd_lengths_and_alignments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

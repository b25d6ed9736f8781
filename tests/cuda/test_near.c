/* Gradients that are exchanged from the device's own memory: there they stand in the flat block's order, scaled and added bit for bit as on
 * the host. That ranks which exchange so and ranks that do not get along is shown with mpirun by tests/integration/test_gpu.py.
 */
#include "tests/cuda/judge.h"

static const char model[] =
    "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3},"
    "{\"type\": \"batch_norm\"}, {\"type\": \"relu\"},"
    "{\"type\": \"dense\", \"units\": 9}, {\"type\": \"tanh\"}, {\"type\": \"dense\", \"units\": 4}]}";

struct ring {
    struct judge *j;
    const struct dev_memory_ops *memory;
    float *near;
};

static struct ring open_ring(void)
{
    struct ring r = {.j = judge_new(model, NULL, "fp32")};
    r.memory = r.j->gpu->ops->memory;
    assert_non_null(r.memory);
    r.near = r.memory->take(r.j->gpu, r.j->net.n_params, &r.j->e);
    assert_non_null(r.near);
    return r;
}

static void close_ring(struct ring *r)
{
    r->memory->give_back(r->j->gpu, r->near);
    judge_free(r->j);
}

static void download(struct ring *r, float *to)
{
    struct judge_memory m = {r->near};
    judge_download(&m, 0, to, r->j->net.n_params * sizeof(float));
}

static const float share = 0.3f;
static float *marked; /* gradients by bucket, as the host got them: times share */

static void fetch_both(void *ctx, int bucket)
{
    struct ring *r = ctx;
    struct judge *j = r->j;
    size_t n = j->net.n_params, first = bucket == 0 ? n / 2 : 0, count = bucket == 0 ? n - n / 2 : n / 2;
    if (bucket > 1) {
        return;
    }
    judge_ok(j, j->gpu->ops->fetch(&j->on_gpu, DEV_GRADS, first, count, &j->e));
    judge_ok(j, r->memory->fetch(&j->on_gpu, DEV_GRADS, first, count, share, r->near + first, &j->e));
    for (size_t i = first; i < first + count; i++) {
        marked[i] = j->on_gpu.host[DEV_GRADS][i] * share;
    }
}

static void gradients_are_scaled_there_as_on_the_host_and_come_back(void **state)
{
    struct ring r = open_ring();
    struct judge *j = r.j;
    size_t n = j->net.n_params;
    struct dev_program *p = j->gpu->ops->program_new(&j->on_gpu, 4, 100, &j->e);
    struct dev_input in = ref_input(&j->net, 4, 3);
    struct dev_result result;
    float *there = calloc(n, sizeof(float));
    marked = calloc(n, sizeof(float));
    assert_non_null(p);
    judge_ok(j, j->gpu->ops->compute(p, &in, &result, NULL, fetch_both, &r, &j->e));
    download(&r, there);
    assert_memory_equal(there, marked, n * sizeof(float));
    assert_true(judge_size(there, n) > 0);
    judge_ok(j, r.memory->store(&j->on_gpu, DEV_GRADS, 0, n / 3, r.near, &j->e)); /* in two parts */
    judge_ok(j, r.memory->store(&j->on_gpu, DEV_GRADS, n / 3, n - n / 3, r.near + n / 3, &j->e));
    judge_fetch(j, DEV_GRADS);
    assert_memory_equal(j->on_gpu.host[DEV_GRADS], there, n * sizeof(float));
    judge_ok(j, r.memory->fetch(&j->on_gpu, DEV_GRADS, 1, n - 1, 1, r.near + 1, &j->e)); /* outside a mark, and not from the start */
    download(&r, there);
    assert_memory_equal(there + 1, marked + 1, (n - 1) * sizeof(float));
    assert_int_equal(r.memory->store(&j->on_gpu, DEV_PARAMS, 0, n, r.near, &j->e), -ERR_INTERNAL);
    assert_int_equal(r.memory->fetch(&j->on_gpu, DEV_GRADS, 1, n, 1, r.near, &j->e), -ERR_INTERNAL);
    ref_input_free(&in);
    free(there);
    free(marked);
    j->gpu->ops->program_free(p);
    close_ring(&r);
}

static void sums_have_the_hosts_bits_at_any_place_and_length(void **state)
{
    enum { MOST = 3000 };
    struct ring r = open_ring();
    static float a[MOST], b[MOST], got[MOST];
    static const size_t lengths[] = {0, 1, 2, 255, 256, 257, 1999};
    struct judge_memory x = judge_alloc(sizeof(a)), y = judge_alloc(sizeof(b));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        size_t n = lengths[i], at = i * 3 % 7, other = i * 5 % 11;
        for (size_t k = 0; k < MOST; k++) {
            a[k] = (float)ldexp((double)rng_below(1, i, k, 100003) / 100003 - 0.5, (int)(k % 40) - 20);
            b[k] = (float)ldexp((double)rng_below(2, i, k, 100003) / 100003 - 0.5, (int)(k % 37) - 18);
        }
        judge_upload(&x, 0, a, sizeof(a));
        judge_upload(&y, 0, b, sizeof(b));
        judge_ok(r.j, r.memory->add(r.j->gpu, (float *)x.at + at, (const float *)y.at + other, n, &r.j->e));
        judge_download(&x, 0, got, sizeof(got));
        for (size_t k = 0; k < n; k++) {
            a[at + k] += b[other + k];
        }
        assert_memory_equal(got, a, sizeof(a));
    }
    judge_give_back(&x);
    judge_give_back(&y);
    close_ring(&r);
}

static void what_fails_ends_in_a_sentence(void **state)
{
    const struct standin_control *c = judge_control();
    if (!c) {
        skip();
    }
    struct ring r = open_ring();
    struct judge *j = r.j;
    long before = c->live();
    c->fail_at(1);
    assert_null(r.memory->take(j->gpu, 10, &j->e));
    assert_non_null(strstr(j->e.message, "memory on the GPU"));
    for (long n = 1; n <= 3; n++) {
        c->fail_at(n);
        assert_int_equal(r.memory->fetch(&j->on_gpu, DEV_GRADS, 0, 10, 1, r.near, &j->e), -ERR_DEVICE);
        c->fail_at(n);
        assert_int_equal(r.memory->store(&j->on_gpu, DEV_GRADS, 0, 10, r.near, &j->e), -ERR_DEVICE);
    }
    for (long n = 1; n <= 2; n++) {
        c->fail_at(n);
        assert_int_equal(r.memory->add(j->gpu, r.near, r.near + 20, 10, &j->e), -ERR_DEVICE);
        assert_non_null(strstr(j->e.message, "add gradients"));
    }
    c->fail_at(0);
    assert_int_equal(c->live(), before);
    close_ring(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_scaled_there_as_on_the_host_and_come_back),
        cmocka_unit_test(sums_have_the_hosts_bits_at_any_place_and_length),
        cmocka_unit_test(what_fails_ends_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

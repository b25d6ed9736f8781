/* A step by tiles (kernels/cpu/tiles.c) and one of a team of programs (kernels/cpu/team.c), against
 * a step of all samples at once, which a prime number of samples on one thread is. The networks
 * have residual branches, joined ones, biases, a batch norm in front and one behind, in both
 * precisions; minibatches end within a tile or before one, and before a member's first sample.
 */
#include "kernels/cpu/cpu.h"
#include "tests/kernels/bench.h"

enum { BATCH = 64, PRIME = 67 };

#define LAYER(type, more) "{\"type\": \"" type "\"" more "},"
#define FROM(name, from) ", \"name\": \"" name "\", \"inputs\": [\"" from "\"]"
#define JOIN(type, from) "{\"type\": \"" type "\", \"inputs\": [" from "]},"
#define NAME(name) ", \"name\": \"" name "\""
#define CONV(more) LAYER("conv2d", ", \"filters\": 16, \"kernel\": 3, \"padding\": 1" more)
#define NO_BIAS ", \"bias\": false"
#define HALF ", \"stride\": 2"
#define NETWORK(channels, layers)                                     \
    "{\"input\": [24, 24, " channels "], \"layers\": [" layers LAYER( \
        "global_average_pool", "") "{\"type\": \"dense\", \"units\": 5}]}"

static const char *const models[] = {
    /* a residual block, and one that halves the image */
    NETWORK("3", CONV("") LAYER("batch_norm", "") LAYER("relu", NAME("r")) CONV("")
                     LAYER("batch_norm", "") LAYER("relu", "") CONV(NO_BIAS)
                         LAYER("batch_norm", NAME("n")) JOIN("add", "\"n\", \"r\"")
                             LAYER("relu", NAME("t")) CONV(FROM("c", "t") HALF NO_BIAS)
                                 LAYER("batch_norm", NAME("m")) CONV(FROM("d", "t") HALF)
                                     LAYER("batch_norm", NAME("o")) JOIN("add", "\"m\", \"o\"")
                                         LAYER("relu", "")),
    /* readers of one batch norm in groups of their own, and within one; activations that cannot be
       a part of a step */
    NETWORK("3", CONV("") LAYER("batch_norm", NAME("n")) CONV(FROM("a", "n")) LAYER("leaky_relu",
                                                                                    NAME("l"))
                     CONV(FROM("b", "n")) JOIN("concat", "\"l\", \"b\", \"n\"") LAYER("relu", "")
                         LAYER("batch_norm", "") LAYER("batch_norm", "") CONV("") LAYER("relu", "")
                             LAYER("dropout", ", \"rate\": 0.3") LAYER("batch_norm", "")),
    /* a wide layer behind a sum, one of whose terms nobody needs any more */
    NETWORK("3", CONV(NO_BIAS) LAYER("batch_norm", NAME("r")) CONV(NO_BIAS)
                     LAYER("batch_norm", NAME("n")) JOIN("add", "\"n\", \"r\"")
                         LAYER("conv2d", ", \"filters\": 48, \"kernel\": 1" NO_BIAS)
                             LAYER("batch_norm", "") CONV(NO_BIAS) LAYER("batch_norm", "")),
    /* a batch norm of the network's input */
    NETWORK("16", LAYER("batch_norm", "") CONV("") LAYER("relu", "") LAYER("batch_norm", "")),
};

/* ---- computing ------------------------------------------------------------------------------- */

struct run {
    struct bench *b;
    struct dev_program *p;
    struct dev_result result;
    float *logits;
};

static bool by_tiles(const struct dev_program *program)
{
    const struct cpu_program *p = ((const struct cpu_team *)program)->members[0].program;
    for (int i = 0; i < p->n_groups; i++) {
        if (p->groups[i].samples < p->batch) {
            return true;
        }
    }
    return false;
}

static int members(const struct dev_program *program)
{
    return ((const struct cpu_team *)program)->n;
}

static struct run computed(const char *precision, const char *device, const char *model, int batch,
                           int count)
{
    struct run r = {.b = bench_new_in(precision, device, model, NULL)};
    struct dev_input in = ref_input(&r.b->net, count, 3);
    r.p = bench_program(r.b, batch);
    r.logits = calloc((size_t)count * shape_count(&r.b->net.output), sizeof(float));
    memset(r.b->replica.host[DEV_GRADS], 0x7f,
           r.b->net.n_params * sizeof(float)); /* what compute must overwrite */
    bench_compute(r.b, r.p, &in, r.logits);
    r.result = bench_compute(r.b, r.p, &in, r.logits); /* again, over what the first has left */
    ref_input_free(&in);
    return r;
}

static void run_free(struct run *r)
{
    free(r->logits);
    r->b->dev->ops->program_free(r->p);
    bench_free(r->b);
}

static void assert_all_near(const float *got, const float *expected, size_t n, double bound,
                            const char *what)
{
    for (size_t i = 0; i < n; i++) {
        assert_near((double)got[i], (double)expected[i], bound * (1 + fabs((double)expected[i])),
                    what, i);
    }
}

/* ---- tiles and all samples at once ----------------------------------------------------------- */

static void assert_run(const struct run *got, const struct run *whole, int count, double outputs,
                       double gradients)
{
    assert_near(got->result.loss, whole->result.loss, outputs * whole->result.loss, "loss", 0);
    assert_int_equal(got->result.correct, whole->result.correct);
    assert_all_near(got->logits, whole->logits, (size_t)count * shape_count(&whole->b->net.output),
                    outputs, "output");
    assert_all_near(got->b->replica.host[DEV_STATS], whole->b->replica.host[DEV_STATS],
                    whole->b->net.n_stat_floats, outputs, "statistic");
    check_gradients(got->b, whole->b, gradients);
}

static void check(const char *precision, double outputs, double gradients)
{
    static const int counts[] = {BATCH, 59, 15};
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
            struct run whole = computed(precision, "cpu:1", models[m], PRIME, counts[c]);
            assert_false(by_tiles(whole.p));
            for (int threads = 1; threads <= 3; threads++) {
                char device[8];
                snprintf(device, sizeof(device), "cpu:%d", threads);
                struct run r =
                    computed(precision, device, models[m], threads == 3 ? PRIME : BATCH, counts[c]);
                assert_int_equal(members(r.p), threads);
                assert_true(by_tiles(r.p) || threads == 3);
                assert_run(&r, &whole, counts[c], outputs, gradients);
                run_free(&r);
            }
            run_free(&whole);
        }
    }
}

static void a_step_by_tiles_is_that_of_all_samples_at_once(void **state)
{
    check("fp32", 1e-5, 1e-4);
}

static void a_step_by_tiles_is_that_of_all_samples_at_once_in_bf16(void **state)
{
    if (!bench_has_bf16()) {
        skip();
    }
    check("bf16", 0.02, 0.05);
}

static void an_evaluation_by_tiles_is_that_of_all_samples_at_once(void **state)
{
    struct run tiles = computed("fp32", "cpu:2", models[0], BATCH, BATCH),
               whole = computed("fp32", "cpu:1", models[0], PRIME, BATCH);
    struct dev_input in = ref_input(&whole.b->net, 59, 5);
    in.training = false;
    double loss = bench_compute(whole.b, whole.p, &in, whole.logits).loss;
    assert_near(bench_compute(tiles.b, tiles.p, &in, tiles.logits).loss, loss, 1e-5 * loss, "loss",
                0);
    assert_all_near(tiles.logits, whole.logits, 59 * shape_count(&whole.b->net.output), 1e-5,
                    "output");
    ref_input_free(&in);
    run_free(&tiles);
    run_free(&whole);
}

static void running_statistics_move_once_a_step(void **state)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct bench *b = bench_new(threads == 1 ? "cpu:1" : "cpu:2", models[3], NULL);
        struct dev_program *p = bench_program(b, BATCH);
        struct dev_input in = ref_input(&b->net, BATCH, 3);
        size_t c = (size_t)b->net.input.dim[2], n = BATCH * shape_count(&b->net.input);
        double *before = calloc(2 * c, sizeof(*before));
        for (size_t k = 0; k < 2 * c; k++) {
            before[k] = (double)b->replica.host[DEV_STATS][k];
        }
        bench_compute(b, p, &in, NULL);
        for (size_t k = 0; k < c; k++) {
            double sum = 0, squares = 0, rows = (double)(n / c);
            for (size_t i = k; i < n; i += c) {
                sum += (double)in.x[i];
            }
            for (size_t i = k; i < n; i += c) {
                squares += pow((double)in.x[i] - sum / rows, 2);
            }
            assert_near((double)b->replica.host[DEV_STATS][k], 0.9 * before[k] + 0.1 * sum / rows,
                        1e-6, "running mean", k);
            assert_near((double)b->replica.host[DEV_STATS][c + k],
                        0.9 * before[c + k] + 0.1 * squares / (rows - 1), 1e-6, "running variance",
                        k);
        }
        free(before);
        ref_input_free(&in);
        b->dev->ops->program_free(p);
        bench_free(b);
    }
}

/* ---- bits ------------------------------------------------------------------------------------ */

static void the_same_step_by_tiles_gives_the_same_bits(void **state)
{
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++) {
        struct run a = computed("fp32", "cpu:2", models[m], BATCH, 59),
                   b = computed("fp32", "cpu:2", models[m], BATCH, 59);
        assert_true(a.result.loss == b.result.loss);
        assert_memory_equal(a.b->replica.host[DEV_GRADS], b.b->replica.host[DEV_GRADS],
                            a.b->net.n_params * sizeof(float));
        assert_memory_equal(a.b->replica.host[DEV_STATS], b.b->replica.host[DEV_STATS],
                            a.b->net.n_stat_floats * sizeof(float));
        run_free(&a);
        run_free(&b);
    }
}

/* ---- who has a program of its own ------------------------------------------------------------ */

static void a_step_of_few_activations_beside_its_weights_has_one_program(void **state)
{
    struct bench *wide = bench_new("cpu:2", "\"lenet5\"", NULL),
                 *deep = bench_new("cpu:2", models[0], NULL);
    struct dev_program *few = bench_program(wide, BATCH), *many = bench_program(deep, BATCH),
                       *one = bench_program(deep, 1);
    assert_int_equal(members(few), 1);
    assert_int_equal(members(many), 2);
    assert_int_equal(members(one), 1);
    wide->dev->ops->program_free(few);
    deep->dev->ops->program_free(many);
    deep->dev->ops->program_free(one);
    bench_free(wide);
    bench_free(deep);
}

/* ---- what has no tiles ----------------------------------------------------------------------- */

static void a_network_that_ends_with_a_batch_norm_matches(void **state)
{
    check_model(
        "{\"input\": [6, 6, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, "
        "\"kernel\": 3}, {\"type\": \"dense\","
        "\"units\": 4}, {\"type\": \"batch_norm\"}]}",
        9, 8, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_by_tiles_is_that_of_all_samples_at_once),
        cmocka_unit_test(a_step_by_tiles_is_that_of_all_samples_at_once_in_bf16),
        cmocka_unit_test(an_evaluation_by_tiles_is_that_of_all_samples_at_once),
        cmocka_unit_test(running_statistics_move_once_a_step),
        cmocka_unit_test(the_same_step_by_tiles_gives_the_same_bits),
        cmocka_unit_test(a_step_of_few_activations_beside_its_weights_has_one_program),
        cmocka_unit_test(a_network_that_ends_with_a_batch_norm_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

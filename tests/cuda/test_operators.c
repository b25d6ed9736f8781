/* Every operator of the CUDA device against the CPU device, in the networks of
 * tests/kernels/cases.h, in which the CPU device itself is held to finite differences, and in
 * larger ones.
 *
 * Bounds, times the usual size of a tensor's elements plus the element's own: fp32 1e-5 (sums of up
 * to a few thousand terms in another order), 5e-5 behind batch norm, which divides by the deviation
 * of few samples; tf32 (10 bits kept of each factor) 2e-2; bf16 (7 bits kept of everything) 1e-1.
 */
#include "tests/cuda/judge.h"
#include "tests/kernels/cases.h"

static const double exact = 1e-5, behind_norm = 5e-5;

/* A training step whose work runs as late as its order allows, one whose work runs as early as that
 * (where there is no choice, the same again), and an evaluation. */
static void check_model_on(const char *model, int batch, int count, const char *precision,
                           double bound)
{
    const struct standin_control *c = judge_control();
    struct judge *j = judge_new(model, NULL, precision);
    struct dev_program *a = judge_program(j, &j->on_cpu, batch),
                       *b = judge_program(j, &j->on_gpu, batch);
    struct dev_input in = ref_input(&j->net, count, 11);
    size_t outputs = (size_t)count * shape_count(&j->net.output);
    float *expected = calloc(outputs, sizeof(float)), *got = calloc(outputs, sizeof(float));
    for (int pass = 0; pass < 3; pass++) {
        if (c) {
            c->set_eager(pass == 1);
        }
        in.training = pass < 2;
        struct dev_result x = judge_compute(j, a, &in, expected), y = judge_compute(j, b, &in, got);
        assert_near(y.loss, x.loss, 10 * bound * (1 + fabs(x.loss)), "loss", 0);
        assert_true(y.finite);
        judge_near(got, expected, outputs, 2 * bound, "output");
        if (strcmp(precision, "fp32") == 0) {
            assert_int_equal(x.correct, y.correct);
        }
        judge_fetch(j, DEV_GRADS);
        judge_near_gradients(j, bound);
        judge_fetch(j, DEV_STATS);
        judge_near(j->on_gpu.host[DEV_STATS], j->on_cpu.host[DEV_STATS], j->net.n_stat_floats,
                   bound, "statistic");
    }
    free(expected);
    free(got);
    ref_input_free(&in);
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

static void check_between(const char *layers, int batch, double bound)
{
    char model[BETWEEN_BYTES];
    case_between(model, layers);
    check_model_on(model, batch, batch, "fp32", bound);
    check_model_on(model, batch + 2, batch, "fp32", bound);
}

static void check_cases(const struct layer_case *c, double bound)
{
    for (; c->layers; c++) {
        check_between(c->layers, c->batch, bound);
    }
}

static void check_convolution(const char *shape)
{
    char layer[200];
    snprintf(layer, sizeof(layer), "{\"type\": \"conv2d\", %s}", shape);
    check_between(layer, 3, exact);
    snprintf(layer, sizeof(layer), "{\"type\": \"conv2d\", %s}, {\"type\": \"relu\"}", shape);
    check_between(layer, 2, exact);
}

static void convolutions_match_at_every_stride_and_padding(void **state)
{
    for (const struct layer_case *c = convolution_cases; c->layers; c++) {
        check_convolution(c->layers);
    }
    check_convolution("\"filters\": 300, \"kernel\": 3, \"padding\": 2, \"bias\": false");
    check_convolution("\"filters\": 260, \"kernel\": 1");
}

static void dense_layers_match_after_images_and_vectors(void **state)
{
    check_cases(dense_cases, exact);
    check_model_on("{\"input\": [5], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}", 4, 4,
                   "fp32", exact);
    check_model_on("{\"input\": [4, 3, 2], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}", 1,
                   1, "fp32", exact);
    check_model_on(
        "{\"input\": [700], \"layers\": [{\"type\": \"dense\", \"units\": 513}, "
        "{\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 9}]}",
        37, 35, "fp32", exact);
}

static void pools_match(void **state)
{
    check_cases(max_pool_cases, exact);
    check_cases(average_pool_cases, exact);
    check_between("{\"type\": \"average_pool\", \"size\": 2, \"stride\": 3}", 3, exact);
    check_model_on(
        "{\"input\": [21, 20, 2], \"layers\": [{\"type\": \"conv2d\", \"filters\": 3, "
        "\"kernel\": 1},"
        "{\"type\": \"max_pool\", \"size\": [20, 17], \"stride\": 1}, "
        "{\"type\": \"dense\", \"units\": 3}]}",
        2, 2, "fp32", exact);
}

/* Bias and relu of a convolution that one max pool alone reads are the pool's; not where somebody
 * else reads it too. */
static void a_max_pool_does_what_is_left_of_the_convolution_before_it(void **state)
{
    static const char form[] =
        "{\"input\": [9, 8, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 8, \"kernel\": 3, "
        "\"bias\": %s}, %s {\"type\": \"dense\", \"units\": 4}]}";
    static const char *const behind[] = {
        "{\"type\": \"relu\"}, {\"type\": \"max_pool\", \"size\": 3, \"stride\": 2, "
        "\"padding\": 1},",
        "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"relu\"},",
        "{\"type\": \"relu\", \"name\": \"r\"}, {\"type\": \"max_pool\", \"size\": 3, "
        "\"stride\": 1, \"padding\": 1, \"name\": \"p\"},"
        "{\"type\": \"add\", \"inputs\": [\"r\", \"p\"]},",
        "{\"type\": \"relu\", \"name\": \"r\"}, {\"type\": \"max_pool\", \"size\": 2, "
        "\"name\": \"p\"},"
        "{\"type\": \"max_pool\", \"size\": 2, \"inputs\": [\"r\"], \"name\": \"q\"}, "
        "{\"type\": \"concat\", \"inputs\": [\"p\", \"q\"]},",
    };
    for (size_t i = 0; i < sizeof(behind) / sizeof(*behind); i++) {
        for (int bias = 0; bias < 2; bias++) {
            char model[800];
            snprintf(model, sizeof(model), form, bias ? "true" : "false", behind[i]);
            check_model_on(model, 5, 4, "fp32", exact);
            check_model_on(model, 5, 4, "bf16", 1e-1);
        }
    }
}

static void pointwise_layers_match_in_any_order(void **state)
{
    check_cases(pointwise_cases, exact);
    check_cases(activation_cases, exact);
    check_between(
        "{\"type\": \"dense\", \"units\": 7}, {\"type\": \"dropout\", \"rate\": 0.3}, "
        "{\"type\": \"relu\"}",
        3, exact);
}

static void lrn_matches_for_odd_and_even_windows_and_any_exponent(void **state)
{
    check_cases(lrn_cases, exact);
}

static void batch_norm_matches_on_images_and_vectors(void **state)
{
    check_cases(batch_norm_cases, behind_norm);
    check_between(
        "{\"type\": \"conv2d\", \"filters\": 270, \"kernel\": 1}, {\"type\": \"batch_norm\"}", 2,
        behind_norm);
    check_model_on(
        "{\"input\": [9, 8, 3], \"layers\": [{\"type\": \"batch_norm\"}, "
        "{\"type\": \"dense\", \"units\": 4}]}",
        9, 9, "fp32", behind_norm);
    check_model_on(
        "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 7, \"kernel\": 3},"
        "{\"type\": \"batch_norm\", \"momentum\": 0.3}, {\"type\": \"dense\", \"units\": 4}]}",
        140, 133, "fp32", behind_norm);
}

static void graphs_add_and_concat_and_sum_the_gradients_of_every_reader(void **state)
{
    check_cases(graph_cases, exact);
}

static void sums_of_batch_norms_match(void **state)
{
    check_cases(norm_sum_cases, behind_norm);
}

static void mean_squared_error_matches(void **state)
{
    check_model_on(
        "{\"input\": [6], \"loss\": \"mse\", \"layers\": [{\"type\": \"dense\", \"units\": 9}, "
        "{\"type\": \"relu\"},"
        "{\"type\": \"dense\", \"units\": 4}]}",
        5, 5, "fp32", exact);
    check_model_on(
        "{\"input\": [5, 4, 3], \"loss\": \"mse\", \"layers\": [{\"type\": \"conv2d\", "
        "\"filters\": 3, \"kernel\": 2},"
        "{\"type\": \"dense\", \"units\": 40}]}",
        5, 3, "fp32", exact);
}

static void many_classes_match(void **state)
{
    check_model_on("{\"input\": [12], \"layers\": [{\"type\": \"dense\", \"units\": 101}]}", 19, 17,
                   "fp32", exact);
}

static const char mixed[] =
    "{\"input\": [9, 8, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 6, \"kernel\": 3}, "
    "{\"type\": \"batch_norm\"}, {\"type\": \"relu\"},"
    "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"lrn\"}, "
    "{\"type\": \"dropout\", \"rate\": 0.2},"
    "{\"type\": \"dense\", \"units\": 21}, {\"type\": \"tanh\"}, "
    "{\"type\": \"dense\", \"units\": 5}]}";

static void tf32_stays_within_its_bound(void **state)
{
    check_model_on("\"mlp\"", 6, 5, "tf32", 2e-2);
    check_model_on(mixed, 12, 11, "tf32", 5e-2);
}

static void bf16_stays_within_its_bound(void **state)
{
    check_model_on(
        "{\"input\": [40], \"layers\": [{\"type\": \"dense\", \"units\": 33}, "
        "{\"type\": \"tanh\"}, {\"type\": \"dense\", \"units\": 9}]}",
        6, 5, "bf16", 5e-2);
    check_model_on(
        "{\"input\": [7, 6, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, "
        "\"kernel\": 3}, {\"type\": \"sigmoid\"},"
        "{\"type\": \"average_pool\", \"size\": 2}, {\"type\": \"lrn\"}, "
        "{\"type\": \"dense\", \"units\": 9}]}",
        6, 5, "bf16", 5e-2);
    check_model_on(
        "{\"input\": [7, 6, 3], \"layers\": [{\"type\": \"conv2d\", \"name\": \"a\", "
        "\"filters\": 5, \"kernel\": 3}, {\"type\": \"batch_norm\"},"
        "{\"type\": \"tanh\"}, {\"type\": \"concat\", \"inputs\": [\"tanh1\", \"a\"]}, "
        "{\"type\": \"flatten\"}, {\"type\": \"dropout\"},"
        "{\"type\": \"dense\", \"units\": 9}]}",
        16, 15, "bf16", 1e-1);
}

/* Channels that are a multiple of what a thread takes at once, of either kind of number; packs that
 * do not divide a warp, and more of them than a block has threads. */
static void packs_of_channels_match(void **state)
{
    static const char packs[] =
        "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 24, "
        "\"kernel\": 3, \"padding\": 1}, {\"type\": \"batch_norm\"},"
        "{\"type\": \"relu\"}, {\"type\": \"max_pool\", \"size\": 3, \"stride\": 2, "
        "\"padding\": 1, \"name\": \"a\"},"
        "{\"type\": \"conv2d\", \"filters\": 40, \"kernel\": 1}, {\"type\": \"relu\"},"
        "{\"type\": \"average_pool\", \"size\": 3, \"stride\": 1, \"padding\": 1, "
        "\"name\": \"b\"}, {\"type\": \"concat\", \"inputs\": [\"b\", \"a\"]},"
        "{\"type\": \"global_average_pool\"}, {\"type\": \"dense\", \"units\": 8}, "
        "{\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 5}]}";
    static const char
        halves[] = /* rounding decides nothing here: neither a relu's side nor a maximum's place */
        "{\"input\": [6, 5, 8], \"layers\": [{\"type\": \"max_pool\", \"size\": 3, \"stride\": 1, "
        "\"padding\": 1},"
        "{\"type\": \"conv2d\", \"filters\": 24, \"kernel\": 3, \"padding\": 1}, "
        "{\"type\": \"batch_norm\"}, {\"type\": \"tanh\"},"
        "{\"type\": \"max_pool\", \"size\": 1, \"name\": \"a\"}, "
        "{\"type\": \"conv2d\", \"filters\": 40, \"kernel\": 1},"
        "{\"type\": \"average_pool\", \"size\": 3, \"stride\": 1, \"padding\": 1, "
        "\"name\": \"b\"}, {\"type\": \"concat\", \"inputs\": [\"b\", \"a\"]},"
        "{\"type\": \"global_average_pool\"}, {\"type\": \"dense\", \"units\": 8}, "
        "{\"type\": \"tanh\"}, {\"type\": \"dense\", \"units\": 5}]}";
    static const char wide[] =
        "{\"input\": [4, 4, 6], \"layers\": [{\"type\": \"conv2d\", \"filters\": 2056, "
        "\"kernel\": 1}, {\"type\": \"batch_norm\"},"
        "{\"type\": \"tanh\"}, {\"type\": \"global_average_pool\"}, "
        "{\"type\": \"dense\", \"units\": 4}]}";
    check_model_on(packs, 9, 7, "fp32", behind_norm);
    check_model_on(halves, 9, 7, "bf16", 1e-1);
    check_model_on(wide, 9, 8, "fp32", behind_norm);
    check_model_on(wide, 9, 8, "bf16", 1e-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_match_at_every_stride_and_padding),
        cmocka_unit_test(dense_layers_match_after_images_and_vectors),
        cmocka_unit_test(pools_match),
        cmocka_unit_test(a_max_pool_does_what_is_left_of_the_convolution_before_it),
        cmocka_unit_test(pointwise_layers_match_in_any_order),
        cmocka_unit_test(lrn_matches_for_odd_and_even_windows_and_any_exponent),
        cmocka_unit_test(batch_norm_matches_on_images_and_vectors),
        cmocka_unit_test(graphs_add_and_concat_and_sum_the_gradients_of_every_reader),
        cmocka_unit_test(sums_of_batch_norms_match),
        cmocka_unit_test(mean_squared_error_matches),
        cmocka_unit_test(many_classes_match),
        cmocka_unit_test(tf32_stays_within_its_bound),
        cmocka_unit_test(bf16_stays_within_its_bound),
        cmocka_unit_test(packs_of_channels_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* bf16 on the CPU beyond single operators (those: check_model in bench.h): deep networks,
 * curves, threads, repeated runs, NaN, and that parameters stay fp32. Skipped where the CPU has no
 * avx512_bf16, except for the refusal of such a CPU.
 */
#include "tests/kernels/bench.h"

static const char lenet[] =
    "{\"input\": [12, 12, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 16, \"kernel\": 5, "
    "\"padding\": 2}, {\"type\": \"relu\"},"
    "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"conv2d\", \"filters\": 32, \"kernel\": 3, "
    "\"padding\": 1}, {\"type\": \"relu\"},"
    "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"dense\", \"units\": 64}, "
    "{\"type\": \"relu\"}, {\"type\": \"dropout\", \"rate\": 0.2},"
    "{\"type\": \"dense\", \"units\": 10}]}";

static void needs_bf16(void)
{
    if (!bench_has_bf16()) {
        skip();
    }
}

static void a_deep_networks_gradient_is_near_that_of_fp32(void **state)
{
    needs_bf16();
    char *model = preset_for("resnet20", 12);
    struct bench *a = bench_new("cpu:2", model, NULL),
                 *b = bench_new_in("bf16", "cpu:2", model, NULL);
    struct dev_program *p = bench_program(a, 96), *q = bench_program(b, 96);
    struct dev_input in = ref_input(&a->net, 90, 5);
    double loss = bench_compute(a, p, &in, NULL).loss;
    assert_near(bench_compute(b, q, &in, NULL).loss, loss, 1e-2 * loss, "loss", 0);
    /* twenty layers of rounding, and a gradient that is small beside its samples' */
    check_gradients(b, a, 0.5);
    a->dev->ops->program_free(p);
    b->dev->ops->program_free(q);
    ref_input_free(&in);
    bench_free(a);
    bench_free(b);
    free(model);
}

/* ---- curves ---------------------------------------------------------------------------------- */

enum { STEPS = 30 };

static void curve(const char *precision, const char *model, double *losses)
{
    struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4};
    struct bench *b = bench_new_in(precision, "cpu:2", model, &sgd);
    struct dev_program *p = bench_program(b, 32);
    struct dev_input in = ref_input(&b->net, 32, 1);
    for (int i = 0; i < STEPS; i++) {
        losses[i] = bench_compute(b, p, &in, NULL).loss / 32;
        assert_int_equal(b->dev->ops->update(&b->replica, 0.01, 1, &b->e), 0);
    }
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void check_curve(const char *model)
{
    double exact[STEPS], rounded[STEPS];
    curve("fp32", model, exact);
    curve("bf16", model, rounded);
    assert_true(exact[STEPS - 1] < 0.7 * exact[0]);
    for (int i = 0; i < STEPS; i++) {
        assert_near(rounded[i], exact[i], 0.04 * exact[0], "loss of step", (size_t)i);
    }
}

static void training_curves_are_near_those_of_fp32(void **state)
{
    needs_bf16();
    char *deep = preset_for("resnet20", 12);
    check_curve(lenet);
    check_curve(deep);
    free(deep);
}

static void steps_smaller_than_bf16_resolves_are_not_lost(void **state)
{
    needs_bf16();
    struct bench *b = bench_new_in("bf16", "cpu:1", lenet, NULL);
    struct dev_program *p = bench_program(b, 4);
    struct dev_input in = ref_input(&b->net, 4, 5);
    float *before = malloc(b->net.n_params * sizeof(float));
    memcpy(before, b->replica.host[DEV_PARAMS], b->net.n_params * sizeof(float));
    bench_compute(b, p, &in, NULL);
    size_t there = 0, moved = 0;
    assert_int_equal(b->dev->ops->update(&b->replica, 1e-4, 1, &b->e), 0);
    for (size_t i = 0; i < b->net.n_params; i++) {
        bool counts =
            fabs(1e-4 * (double)b->replica.host[DEV_GRADS][i]) > 1e-6 * fabs((double)before[i]);
        there += counts;
        moved += counts && b->replica.host[DEV_PARAMS][i] != before[i];
        assert_near((double)b->replica.host[DEV_PARAMS][i],
                    (double)before[i] - 1e-4 * (double)b->replica.host[DEV_GRADS][i],
                    1e-7 * (1 + fabs((double)before[i])), "parameter", i);
    }
    assert_true(there > b->net.n_params / 10 && moved == there);
    free(before);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

/* ---- the same again -------------------------------------------------------------------------- */

static struct bench *computed(const char *device, const char *model, int count,
                              struct dev_result *result)
{
    struct bench *b = bench_new_in("bf16", device, model, NULL);
    struct dev_program *p = bench_program(b, 40);
    struct dev_input in = ref_input(&b->net, count, 5);
    *result = bench_compute(b, p, &in, NULL);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    return b;
}

static void a_repeated_run_gives_the_same_bits_and_other_threads_the_same_by_rounding(void **state)
{
    needs_bf16();
    char *deep = preset_for("resnet20", 12);
    const char *const models[] = {lenet, deep};
    for (int m = 0; m < 2; m++) {
        struct dev_result first, second, other;
        struct bench *a = computed("cpu:2", models[m], 37, &first),
                     *b = computed("cpu:2", models[m], 37, &second);
        struct bench *c = computed("cpu:1", models[m], 37, &other);
        assert_true(first.loss == second.loss);
        assert_memory_equal(a->replica.host[DEV_GRADS], b->replica.host[DEV_GRADS],
                            a->net.n_params * sizeof(float));
        assert_near(other.loss, first.loss, 1e-2 * first.loss, "loss", 0);
        check_gradients(c, a, m ? 0.5 : 0.05);
        bench_free(a);
        bench_free(b);
        bench_free(c);
    }
    free(deep);
}

/* ---- what is not a number -------------------------------------------------------------------- */

static void check_nan(const char *precision, const char *layers)
{
    char model[600];
    snprintf(model, sizeof(model),
             "{\"input\": [6, 6, 3], \"layers\": [%s, {\"type\": \"dense\", \"name\": \"last\", "
             "\"units\": 5}]}",
             layers);
    struct bench *b = bench_new_in(precision, "cpu:2", model, NULL);
    struct dev_program *p = bench_program(b, 3);
    struct dev_input in = ref_input(&b->net, 3, 5);
    float *x = (float *)(uintptr_t)in.x;
    assert_true(bench_compute(b, p, &in, NULL).finite);
    x[40] = NAN;
    if (bench_compute(b, p, &in, NULL).finite) {
        fail_msg("%s (%s): what is not a number is not seen in the loss", layers, precision);
    }
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

/* Not here: max pooling, and a relu that is part of a convolution or dense layer, are oneDNN's,
 * which take what is not a number for small. */
static void what_is_not_a_number_stays_visible(void **state)
{
    static const char *const layers[] = {
        "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}",
        "{\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 6}",
        "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"batch_norm\"}, "
        "{\"type\": \"relu\"}",
        "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"leaky_relu\"}",
        "{\"type\": \"average_pool\", \"size\": 3}, {\"type\": \"tanh\"}",
        "{\"type\": \"global_average_pool\"}, {\"type\": \"sigmoid\"}",
        "{\"type\": \"lrn\"}, {\"type\": \"dropout\", \"rate\": 0}",
        "{\"type\": \"relu\", \"name\": \"r\"}, {\"type\": \"add\", \"inputs\": [\"r\", "
        "\"input\"]}, {\"type\": \"relu\"}",
    };
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        check_nan("fp32", layers[i]);
        if (bench_has_bf16()) {
            check_nan("bf16", layers[i]);
        }
    }
}

static void a_precision_that_the_cpu_lacks_is_refused_in_one_sentence(void **state)
{
    struct err e = {0};
    struct device *dev = dev_open("cpu:1", &e);
    assert_int_equal(dev_use_precision(dev, "fp32", &e), 0);
    assert_int_equal(dev_use_precision(dev, "tf32", &e), -ERR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "does not offer the precision 'tf32'"));
    if (!bench_has_bf16()) {
        assert_int_equal(dev_use_precision(dev, "bf16", &e), -ERR_UNSUPPORTED);
    }
    dev_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deep_networks_gradient_is_near_that_of_fp32),
        cmocka_unit_test(training_curves_are_near_those_of_fp32),
        cmocka_unit_test(steps_smaller_than_bf16_resolves_are_not_lost),
        cmocka_unit_test(a_repeated_run_gives_the_same_bits_and_other_threads_the_same_by_rounding),
        cmocka_unit_test(what_is_not_a_number_stays_visible),
        cmocka_unit_test(a_precision_that_the_cpu_lacks_is_refused_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

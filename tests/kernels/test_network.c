/* Whole networks on the device against the plain reference: outputs, loss, and gradients against finite differences. */
#include "tests/kernels/reference.h"

static void mlp_matches_the_reference(void **state)
{
    check_model("\"mlp\"", 7, 7, 20);
}

static void lenet5_matches_the_reference(void **state)
{
    check_model("\"lenet5\"", 3, 3, 6);
}

static void a_program_larger_than_the_slice_gives_the_mean_over_the_slice(void **state)
{
    check_model("\"mlp\"", 9, 4, 10);
    check_model("\"lenet5\"", 4, 1, 4);
}

static void training_lenet5_lowers_the_loss(void **state)
{
    struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9};
    struct bench *b = bench_new("cpu:2", "\"lenet5\"", &sgd);
    struct dev_program *p = bench_program(b, 16);
    struct dev_input in = ref_input(&b->net, 16, 1);
    double first = bench_compute(b, p, &in, NULL).loss, last = first;
    for (int step = 0; step < 12; step++) {
        assert_int_equal(b->dev->ops->update(&b->replica, 0.01, 1.0, &b->e), 0);
        last = bench_compute(b, p, &in, NULL).loss;
    }
    assert_true(last < 0.2 * first);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_matches_the_reference),
        cmocka_unit_test(lenet5_matches_the_reference),
        cmocka_unit_test(a_program_larger_than_the_slice_gives_the_mean_over_the_slice),
        cmocka_unit_test(training_lenet5_lowers_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

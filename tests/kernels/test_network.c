/* Whole networks on the device against the plain reference: outputs, loss, and gradients against
 * finite differences. */
#include "tests/kernels/bench.h"

static void mlp_matches_the_reference(void **state)
{
    check_model("\"mlp\"", 7, 7, 20);
    check_model("\"mlp\"", 131, 130, 3); /* large minibatches take other kernels */
}

static void lenet5_matches_the_reference(void **state)
{
    check_model("\"lenet5\"", 3, 3, 6);
}

static void cifar_networks_match_the_reference(void **state)
{
    check_model("\"cifar-quick\"", 2, 2, 3);
    check_model("\"tf-cifar\"", 2, 2, 2);
}

static const struct bound deep = {
    1e-4, 2e-3}; /* in bf16, so few samples say nothing behind so many batch norms: test_bf16.c */

static void residual_networks_match_the_reference(void **state)
{
    char *small = preset_for("resnet20", 12);
    check_model_to(small, 6, 5, 2, 3, deep, NULL);
    free(small);
    small = preset_for("resnet18", 8);
    check_model_to(small, 5, 5, 1, 7, deep, NULL);
    free(small);
}

static void presets_have_the_documented_number_of_parameters(void **state)
{
    static const struct {
        const char *model;
        size_t params;
    } expected[] = {{"\"mlp\"", 101770},        {"\"lenet5\"", 1663370},
                    {"\"cifar-quick\"", 89578}, {"\"tf-cifar\"", 3527498},
                    {"\"resnet20\"", 272474},   {"\"resnet18\"", 11173962}};
    int n;
    network_presets(&n);
    assert_int_equal(n, sizeof(expected) / sizeof(*expected));
    for (int i = 0; i < n; i++) {
        struct network net = ref_network(expected[i].model);
        assert_int_equal(net.n_params, expected[i].params);
        assert_int_equal(shape_count(&net.output), 10);
        network_release(&net);
    }
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
        cmocka_unit_test(cifar_networks_match_the_reference),
        cmocka_unit_test(residual_networks_match_the_reference),
        cmocka_unit_test(presets_have_the_documented_number_of_parameters),
        cmocka_unit_test(a_program_larger_than_the_slice_gives_the_mean_over_the_slice),
        cmocka_unit_test(training_lenet5_lowers_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

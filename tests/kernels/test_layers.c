/* Every layer type, in the networks of cases.h, against the reference in double precision and
 * finite differences. See reference.h and bench.h. */
#include "tests/kernels/cases.h"
#include "tests/kernels/bench.h"

static void check_between(const char *layers, int batch)
{
    char model[BETWEEN_BYTES];
    case_between(model, layers);
    check_model(model, batch, batch, 12);
    check_model(model, batch + 2, batch, 4);
}

static void check_cases(const struct layer_case *c)
{
    for (; c->layers; c++) {
        check_between(c->layers, c->batch);
    }
}

static void check_convolution(const char *shape, int batch)
{
    char layer[200];
    snprintf(layer, sizeof(layer), "{\"type\": \"conv2d\", %s}", shape);
    check_between(layer, batch);
    snprintf(layer, sizeof(layer), "{\"type\": \"conv2d\", %s}, {\"type\": \"relu\"}", shape);
    check_between(layer, batch - 1);
}

static void convolutions_match_at_every_stride_and_padding(void **state)
{
    for (const struct layer_case *c = convolution_cases; c->layers; c++) {
        check_convolution(c->layers, c->batch);
    }
    check_convolution("\"filters\": 32, \"kernel\": 5, \"padding\": 4, \"bias\": false", 3);
}

static void dense_layers_match_after_images_and_vectors(void **state)
{
    check_cases(dense_cases);
    check_model("{\"input\": [5], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}", 4, 4, 18);
    check_model("{\"input\": [4, 3, 2], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}", 1, 1,
                30);
}

static void max_pools_match(void **state)
{
    check_cases(max_pool_cases);
}

static void relu_dropout_and_flatten_match_in_any_order(void **state)
{
    check_cases(pointwise_cases);
}

static void average_pools_match_and_count_padding(void **state)
{
    check_cases(average_pool_cases);
}

static void activations_match(void **state)
{
    check_cases(activation_cases);
}

static void lrn_matches_for_odd_and_even_windows_and_any_exponent(void **state)
{
    check_cases(lrn_cases);
}

static void batch_norm_matches_on_images_and_vectors(void **state)
{
    check_cases(batch_norm_cases);
    check_cases(norm_sum_cases);
    check_model(
        "{\"input\": [9, 8, 3], \"layers\": [{\"type\": \"batch_norm\"}, "
        "{\"type\": \"dense\", \"units\": 4}]}",
        9, 9, 10);
}

/* Of two batch norms behind each other only one is made again for the backward pass; and one that
 * several layers read. */
static void what_is_made_again_for_the_backward_pass_is_the_same(void **state)
{
    check_between(
        "{\"type\": \"batch_norm\"}, {\"type\": \"batch_norm\"}, {\"type\": \"relu\"}, "
        "{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3}",
        4);
    check_between(
        "{\"type\": \"batch_norm\"}, {\"type\": \"relu\", \"name\": \"r\"}, "
        "{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 6, \"kernel\": 3, \"padding\": 1},"
        "{\"type\": \"tanh\", \"name\": \"t\"}, {\"type\": \"conv2d\", \"name\": \"b\", "
        "\"filters\": 6, \"kernel\": 1, \"inputs\": [\"r\"]},"
        "{\"type\": \"add\", \"inputs\": [\"t\", \"b\", \"r\"]}, {\"type\": \"relu\"}",
        4);
}

static void batch_norm_keeps_running_statistics_and_evaluates_with_them(void **state)
{
    static const char model[] =
        "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 7, \"kernel\": 3},"
        "{\"type\": \"batch_norm\", \"momentum\": 0.3}, {\"type\": \"dense\", \"units\": 4}]}";
    struct bench *b = bench_new("cpu:2", model, NULL);
    struct dev_program *p = bench_program(b, 40);
    struct dev_input in = ref_input(&b->net, 33, 5);
    struct ref r = bench_reference(b, 33);
    const struct layer *l = &b->net.layers[1];
    double expected[14];
    ref_loss(&r, &in);
    ref_batch_norm(&r, l, &in, r.act[0], r.act[1], expected);
    bench_compute(b, p, &in, NULL);
    for (size_t k = 0; k < 14; k++) {
        assert_near((double)b->replica.host[DEV_STATS][k], expected[k], 1e-5, "statistic", k);
        r.stats[k] = (double)b->replica.host[DEV_STATS][k];
    }
    in.training = false;
    double loss = ref_loss(&r, &in);
    assert_near(bench_compute(b, p, &in, NULL).loss, loss, 1e-4 * (1 + loss), "loss", 0);
    for (size_t k = 0; k < 14; k++) {
        assert_true((double)b->replica.host[DEV_STATS][k] ==
                    r.stats[k]); /* an evaluation changes nothing */
    }
    ref_free(&r);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void graphs_add_and_concat_and_sum_the_gradients_of_every_reader(void **state)
{
    check_cases(graph_cases);
    check_between(
        "{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 3, \"kernel\": 1}, "
        "{\"type\": \"tanh\", \"name\": \"t\", \"inputs\": [\"first\"]},"
        "{\"type\": \"concat\", \"inputs\": [\"t\", \"a\", \"input\", \"first\"]}, "
        "{\"type\": \"batch_norm\"}, {\"type\": \"relu\"}",
        3);
}

static void mean_squared_error_matches(void **state)
{
    check_model(
        "{\"input\": [6], \"loss\": \"mse\", \"layers\": [{\"type\": \"dense\", \"units\": 9}, "
        "{\"type\": \"relu\"},"
        "{\"type\": \"dense\", \"units\": 4}]}",
        5, 5, 10);
    check_model(
        "{\"input\": [5, 4, 3], \"loss\": \"mse\", \"layers\": [{\"type\": \"conv2d\", "
        "\"filters\": 3, \"kernel\": 2},"
        "{\"type\": \"dense\", \"units\": 1}]}",
        5, 3, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_match_at_every_stride_and_padding),
        cmocka_unit_test(dense_layers_match_after_images_and_vectors),
        cmocka_unit_test(max_pools_match),
        cmocka_unit_test(relu_dropout_and_flatten_match_in_any_order),
        cmocka_unit_test(average_pools_match_and_count_padding),
        cmocka_unit_test(activations_match),
        cmocka_unit_test(lrn_matches_for_odd_and_even_windows_and_any_exponent),
        cmocka_unit_test(batch_norm_matches_on_images_and_vectors),
        cmocka_unit_test(what_is_made_again_for_the_backward_pass_is_the_same),
        cmocka_unit_test(batch_norm_keeps_running_statistics_and_evaluates_with_them),
        cmocka_unit_test(graphs_add_and_concat_and_sum_the_gradients_of_every_reader),
        cmocka_unit_test(mean_squared_error_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

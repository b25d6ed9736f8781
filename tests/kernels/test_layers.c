/* Every layer type at odd sizes, strides and paddings, in a small network with something to train on both sides of it, so that
 * its outputs, its own gradients and the gradient that it hands down are all seen. See reference.h.
 */
#include "tests/kernels/reference.h"

/* The layer under test (its JSON, perhaps with others after it) behind a convolution and before a dense layer. */
static void check_between(const char *layers, int batch)
{
    char model[1024];
    snprintf(model, sizeof(model),
             "{\"input\": [11, 9, 3], \"layers\": [{\"type\": \"conv2d\", \"name\": \"first\", \"filters\": 6, \"kernel\": 3, \"padding\": 1},"
             "%s, {\"type\": \"dense\", \"units\": 5}]}",
             layers);
    check_model(model, batch, batch, 12);
    check_model(model, batch + 2, batch, 4);
}

static void convolutions_match_at_every_stride_and_padding(void **state)
{
    static const char *const shapes[] = {
        "\"filters\": 7, \"kernel\": 3",
        "\"filters\": 1, \"kernel\": 1",
        "\"filters\": 8, \"kernel\": [5, 2], \"padding\": [2, 1]",
        "\"filters\": 16, \"kernel\": 3, \"stride\": 2, \"padding\": 1",
        "\"filters\": 17, \"kernel\": [1, 3], \"stride\": [3, 2], \"padding\": [0, 2]",
        "\"filters\": 5, \"kernel\": [11, 9]",
        "\"filters\": 4, \"kernel\": 2, \"stride\": 3",
        "\"filters\": 32, \"kernel\": 5, \"padding\": 4, \"bias\": false",
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        char layer[200];
        snprintf(layer, sizeof(layer), "{\"type\": \"conv2d\", %s}", shapes[i]);
        check_between(layer, 3);
        snprintf(layer, sizeof(layer), "{\"type\": \"conv2d\", %s}, {\"type\": \"relu\"}", shapes[i]);
        check_between(layer, 2);
    }
}

static void dense_layers_match_after_images_and_vectors(void **state)
{
    check_between("{\"type\": \"dense\", \"units\": 1}", 3);
    check_between("{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 13, \"bias\": false}", 3);
    check_between("{\"type\": \"dense\", \"units\": 33}, {\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 7}", 1);
    check_model("{\"input\": [5], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}", 4, 4, 18);
    check_model("{\"input\": [4, 3, 2], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}", 1, 1, 30);
}

static void max_pools_match(void **state)
{
    check_between("{\"type\": \"max_pool\", \"size\": 2}", 3);
    check_between("{\"type\": \"max_pool\", \"size\": 3, \"stride\": 2}", 3);
    check_between("{\"type\": \"max_pool\", \"size\": [2, 3], \"stride\": [1, 2], \"padding\": [1, 1]}", 2);
    check_between("{\"type\": \"max_pool\", \"size\": [11, 9]}", 2);
    check_between("{\"type\": \"relu\"}, {\"type\": \"max_pool\", \"size\": 3, \"stride\": 1, \"padding\": 1}", 2);
}

static void relu_dropout_and_flatten_match_in_any_order(void **state)
{
    check_between("{\"type\": \"relu\"}", 3);
    check_between("{\"type\": \"relu\"}, {\"type\": \"relu\"}", 3);
    check_between("{\"type\": \"dropout\"}", 3);
    check_between("{\"type\": \"dropout\", \"rate\": 0.1}, {\"type\": \"relu\"}", 3);
    check_between("{\"type\": \"dropout\", \"rate\": 0}", 1);
    check_between("{\"type\": \"flatten\"}, {\"type\": \"relu\"}, {\"type\": \"dropout\", \"rate\": 0.7}", 3);
    check_between("{\"type\": \"flatten\"}, {\"type\": \"flatten\"}, {\"type\": \"dropout\"}, {\"type\": \"dense\", \"units\": 6}", 3);
    check_between("{\"type\": \"max_pool\", \"size\": 3}, {\"type\": \"relu\"}", 3);
}


static void average_pools_match_and_count_padding(void **state)
{
    check_between("{\"type\": \"average_pool\", \"size\": 2}", 3);
    check_between("{\"type\": \"average_pool\", \"size\": 3, \"stride\": 2, \"padding\": 1}", 3);
    check_between("{\"type\": \"average_pool\", \"size\": [4, 3], \"stride\": [3, 1], \"padding\": [2, 0]}", 2);
    check_between("{\"type\": \"global_average_pool\"}", 3);
    check_between("{\"type\": \"relu\"}, {\"type\": \"global_average_pool\"}, {\"type\": \"relu\"}", 1);
}

static void activations_match(void **state)
{
    check_between("{\"type\": \"leaky_relu\"}", 3);
    check_between("{\"type\": \"leaky_relu\", \"slope\": 0.3}, {\"type\": \"tanh\"}", 3);
    check_between("{\"type\": \"leaky_relu\", \"slope\": 0}", 1);
    check_between("{\"type\": \"flatten\"}, {\"type\": \"sigmoid\"}, {\"type\": \"dense\", \"units\": 7}, {\"type\": \"tanh\"}", 3);
    check_between("{\"type\": \"sigmoid\"}, {\"type\": \"max_pool\", \"size\": 2}", 3);
}

static void lrn_matches_for_odd_and_even_windows_and_any_exponent(void **state)
{
    check_between("{\"type\": \"lrn\", \"alpha\": 0.5}", 3);
    check_between("{\"type\": \"lrn\", \"window\": 4, \"alpha\": 0.7, \"beta\": 0.6, \"k\": 2}", 3);
    check_between("{\"type\": \"lrn\", \"window\": 1, \"alpha\": 0.2}", 1);
    check_between("{\"type\": \"lrn\", \"window\": 20, \"alpha\": 3}, {\"type\": \"relu\"}, {\"type\": \"lrn\", \"window\": 9, \"alpha\": 1}", 2);
}

static void batch_norm_matches_on_images_and_vectors(void **state)
{
    check_between("{\"type\": \"batch_norm\"}", 3);
    check_between("{\"type\": \"batch_norm\", \"eps\": 0.1}, {\"type\": \"relu\"}", 3);
    check_between("{\"type\": \"relu\"}, {\"type\": \"batch_norm\"}, {\"type\": \"leaky_relu\"}", 2);
    check_between("{\"type\": \"flatten\"}, {\"type\": \"batch_norm\"}, {\"type\": \"relu\"}", 5);
    check_between("{\"type\": \"dense\", \"units\": 9}, {\"type\": \"batch_norm\"}, {\"type\": \"tanh\"}", 6);
    check_model("{\"input\": [9, 8, 3], \"layers\": [{\"type\": \"batch_norm\"}, {\"type\": \"dense\", \"units\": 4}]}", 9, 9, 10);
}

static void batch_norm_keeps_running_statistics_and_evaluates_with_them(void **state)
{
    static const char model[] = "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 7, \"kernel\": 3},"
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
        assert_true((double)b->replica.host[DEV_STATS][k] == r.stats[k]); /* an evaluation changes nothing */
    }
    ref_free(&r);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void graphs_add_and_concat_and_sum_the_gradients_of_every_reader(void **state)
{
    check_between("{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 6, \"kernel\": 3, \"padding\": 1}, {\"type\": \"add\", \"inputs\": [\"a\", \"first\"]}", 3);
    check_between("{\"type\": \"relu\", \"name\": \"r\"}, {\"type\": \"add\", \"inputs\": [\"r\", \"r\", \"first\"]}, {\"type\": \"relu\"}", 2);
    check_between("{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 3, \"kernel\": 1}, {\"type\": \"tanh\", \"name\": \"t\", \"inputs\": [\"first\"]},"
                  "{\"type\": \"concat\", \"inputs\": [\"t\", \"a\", \"input\", \"first\"]}, {\"type\": \"batch_norm\"}, {\"type\": \"relu\"}", 3);
    check_between("{\"type\": \"concat\", \"inputs\": [\"first\", \"first\"]}, {\"type\": \"max_pool\", \"size\": 2}", 2);
    /* vectors that were images count channel, row, column when they are joined with others */
    check_between("{\"type\": \"flatten\", \"name\": \"f\"}, {\"type\": \"dense\", \"name\": \"d\", \"units\": 4},"
                  "{\"type\": \"concat\", \"inputs\": [\"d\", \"f\"]}", 2);
    check_between("{\"type\": \"flatten\", \"name\": \"f\"}, {\"type\": \"relu\", \"name\": \"r\"}, {\"type\": \"dense\", \"name\": \"d\", \"units\": 594},"
                  "{\"type\": \"add\", \"inputs\": [\"d\", \"r\"]}", 2);
}

static void mean_squared_error_matches(void **state)
{
    check_model("{\"input\": [6], \"loss\": \"mse\", \"layers\": [{\"type\": \"dense\", \"units\": 9}, {\"type\": \"relu\"},"
                "{\"type\": \"dense\", \"units\": 4}]}", 5, 5, 10);
    check_model("{\"input\": [5, 4, 3], \"loss\": \"mse\", \"layers\": [{\"type\": \"conv2d\", \"filters\": 3, \"kernel\": 2},"
                "{\"type\": \"dense\", \"units\": 1}]}", 5, 3, 10);
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
        cmocka_unit_test(batch_norm_keeps_running_statistics_and_evaluates_with_them),
        cmocka_unit_test(graphs_add_and_concat_and_sum_the_gradients_of_every_reader),
        cmocka_unit_test(mean_squared_error_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
        cmocka_unit_test(mean_squared_error_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Layers that join or normalise: their shapes, tensors and statistics, and the messages about
 * inputs that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "job/network/network.h"

static int build(struct network *net, const char *layers, struct jsonx_problems *problems)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"input\": [8, 6, 3], \"layers\": [{\"type\": \"conv2d\", \"name\": \"c\", "
             "\"filters\": 5, \"kernel\": 1},"
             "%s, {\"type\": \"dense\", \"units\": 2}]}",
             layers);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    *problems = (struct jsonx_problems){0};
    int rc = network_build(net, j, "/model", problems);
    json_decref(j);
    return rc;
}

static void assert_shape(const char *layers, int h, int w, int c)
{
    struct network net;
    struct jsonx_problems problems;
    if (build(&net, layers, &problems) < 0) {
        fail_msg("%s: %s", problems.items[0].pointer, problems.items[0].message);
    }
    const struct shape *s = &net.layers[net.n_layers - 2].out;
    assert_int_equal(s->rank, h ? 3 : 1);
    assert_int_equal(s->dim[s->rank - 1], c);
    assert_true(!h || (s->dim[0] == h && s->dim[1] == w));
    network_release(&net);
}

static void assert_refused(const char *layers, const char *pointer, const char *part)
{
    struct network net;
    struct jsonx_problems problems;
    assert_true(build(&net, layers, &problems) < 0);
    assert_string_equal(problems.items[0].pointer, pointer);
    if (!strstr(problems.items[0].message, part)) {
        fail_msg("'%s' does not say '%s'", problems.items[0].message, part);
    }
    jsonx_problems_release(&problems);
    network_release(&net);
}

static void outputs_have_the_shape_of_the_inputs_joined(void **state)
{
    assert_shape("{\"type\": \"add\", \"inputs\": [\"c\", \"c\"]}", 8, 6, 5);
    assert_shape("{\"type\": \"concat\", \"inputs\": [\"c\", \"input\", \"c\"]}", 8, 6, 13);
    assert_shape("{\"type\": \"global_average_pool\"}", 0, 0, 5);
    assert_shape("{\"type\": \"average_pool\", \"size\": 3, \"stride\": 2, \"padding\": 1}", 4, 3,
                 5);
    assert_shape("{\"type\": \"batch_norm\"}", 8, 6, 5);
    assert_shape("{\"type\": \"lrn\"}", 8, 6, 5);
    assert_shape("{\"type\": \"flatten\"}, {\"type\": \"batch_norm\"}", 0, 0, 240);
}

static void inputs_that_do_not_fit_are_named_with_their_shapes(void **state)
{
    assert_refused("{\"type\": \"add\", \"inputs\": [\"c\", \"input\"]}", "/model/layers/1",
                   "[8, 6, 5] and [8, 6, 3]");
    assert_refused("{\"type\": \"add\"}", "/model/layers/1/inputs", "takes 2 to 8 inputs, not 1");
    assert_refused(
        "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"concat\", \"inputs\": [\"c\", "
        "\"max_pool1\"]}",
        "/model/layers/2/inputs/1", "max_pool1");
    assert_refused(
        "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"concat\", \"inputs\": [\"c\", "
        "\"pool1\"]}",
        "/model/layers/2", "[4, 3, 5]");
    assert_refused("{\"type\": \"flatten\"}, {\"type\": \"lrn\"}", "/model/layers/2",
                   "height, width and channels");
    assert_refused("{\"type\": \"flatten\"}, {\"type\": \"global_average_pool\"}",
                   "/model/layers/2", "gets [240]");
    assert_refused("{\"type\": \"lrn\", \"window\": 0}", "/model/layers/1/window",
                   "from 1 to 1024");
}

static void batch_norm_has_factors_of_one_and_statistics(void **state)
{
    struct network net;
    struct jsonx_problems problems;
    float params[600], stats[10];
    assert_int_equal(
        build(&net, "{\"type\": \"batch_norm\", \"name\": \"n\"}, {\"type\": \"relu\"}", &problems),
        0);
    assert_int_equal(net.n_stat_floats, 10);
    assert_string_equal(net.stats[0].name, "n.running_mean");
    assert_string_equal(net.stats[1].name, "n.running_var");
    assert_string_equal(net.tensors[2].name, "n.weight");
    assert_true(net.tensors[2].decay);
    assert_true(net.tensors[0].he); /* the convolution reaches the relu through the norm */
    assert_true(net.n_params <= 600);
    network_init(&net, 1, params, stats);
    for (int k = 0; k < 5; k++) {
        assert_true(params[net.tensors[2].first + (size_t)k] == 1.0f &&
                    params[net.tensors[3].first + (size_t)k] == 0.0f);
        assert_true(stats[k] == 0.0f && stats[5 + k] == 1.0f);
    }
    network_release(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_have_the_shape_of_the_inputs_joined),
        cmocka_unit_test(inputs_that_do_not_fit_are_named_with_their_shapes),
        cmocka_unit_test(batch_norm_has_factors_of_one_and_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

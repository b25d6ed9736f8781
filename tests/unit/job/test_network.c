/* Networks: presets have the counts of docs/catalog.md#networks-by-name, shapes are derived, and
 * mistakes name layer and shape. test_network_facts.c has facts about a finished network. */
#include "tests/unit/job/networks.h"

static const struct layer *layer_of(const struct network *net, const char *name)
{
    for (int i = 0; i < net->n_layers; i++) {
        if (strcmp(net->layers[i].name, name) == 0) {
            return &net->layers[i];
        }
    }
    fail_msg("no layer '%s'", name);
    return NULL;
}

static void is_shape(const struct layer *l, int h, int w, int c)
{
    if (l->out.rank != 3 || l->out.dim[0] != h || l->out.dim[1] != w || l->out.dim[2] != c) {
        fail_msg("%s makes %d: %d %d %d", l->name, l->out.rank, l->out.dim[0], l->out.dim[1],
                 l->out.dim[2]);
    }
}

/* ---- presets --------------------------------------------------------------------------------- */

static void presets_have_the_parameters_of_the_table(void **state)
{
    static const struct {
        const char *name;
        int parameters, stats;
    } table[] = {
        {"mlp", 101770, 0},       {"lenet5", 1663370, 0},     {"cifar-quick", 89578, 0},
        {"tf-cifar", 3527498, 0}, {"resnet20", 272474, 1568}, {"resnet18", 11173962, 9600},
    };
    int n;
    network_presets(&n);
    assert_int_equal(n, sizeof table / sizeof *table);
    for (int i = 0; i < n; i++) {
        struct network net;
        make(&net, table[i].name);
        if (net.n_params != (size_t)table[i].parameters ||
            net.n_stat_floats != (size_t)table[i].stats) {
            fail_msg("%s has %zu parameters and %zu statistics", table[i].name, net.n_params,
                     net.n_stat_floats);
        }
        assert_string_equal(net.preset, table[i].name);
        assert_int_equal(net.output.rank, 1);
        assert_int_equal(net.output.dim[0], 10);
        network_release(&net);
    }
}

static void an_unknown_preset_gets_the_nearest_name(void **state)
{
    struct network net;
    struct jsonx_problems problems = {0};
    assert_true(build(&net, "lenet", &problems) < 0);
    assert_string_equal(problems.items[0].pointer, "/model");
    assert_non_null(strstr(problems.items[0].message, "'lenet5'"));
    jsonx_problems_release(&problems);
    network_release(&net);
    assert_null(network_preset("lenet"));
    assert_null(network_preset(NULL));
}

static void a_preset_and_its_layers_written_out_are_one_network(void **state)
{
    int n;
    const char *const *names = network_presets(&n);
    assert_null(names[n]);
    for (int i = 0; i < n; i++) {
        struct network preset, written;
        char *text;
        json_t *j = network_preset(names[i]);
        make(&preset, names[i]);
        text = json_dumps(j, 0);
        make(&written, text);
        char a[17], b[17];
        network_hash(&preset, a);
        network_hash(&written, b);
        assert_string_equal(a, b);
        assert_string_equal(written.preset, "");
        free(text);
        json_decref(j);
        network_release(&preset);
        network_release(&written);
    }
}

static void the_json_of_a_network_builds_it_again(void **state)
{
    int n;
    const char *const *names = network_presets(&n);
    for (int i = 0; i < n; i++) {
        struct network net, again;
        make(&net, names[i]);
        json_t *j = network_json(&net), *k;
        char *text = json_dumps(j, 0), a[17], b[17];
        make(&again, text);
        k = network_json(&again);
        assert_true(json_equal(j, k));
        network_hash(&net, a);
        network_hash(&again, b);
        assert_string_equal(a, b);
        assert_int_equal(net.n_tensors, again.n_tensors);
        for (int t = 0; t < net.n_tensors; t++) {
            assert_string_equal(net.tensors[t].name, again.tensors[t].name);
            assert_int_equal(net.tensors[t].first, again.tensors[t].first);
            assert_int_equal(net.tensors[t].he, again.tensors[t].he);
        }
        free(text);
        json_decref(j);
        json_decref(k);
        network_release(&net);
        network_release(&again);
    }
}

/* ---- shapes, names, the flat block ----------------------------------------------------------- */

static void shapes_follow_from_layer_to_layer(void **state)
{
    struct network net;
    make(&net, "lenet5");
    is_shape(layer_of(&net, "conv1"), 28, 28, 32);
    is_shape(layer_of(&net, "pool1"), 14, 14, 32);
    is_shape(layer_of(&net, "conv2"), 14, 14, 64);
    is_shape(layer_of(&net, "pool2"), 7, 7, 64);
    assert_int_equal(layer_of(&net, "flatten1")->out.dim[0], 3136);
    assert_int_equal(layer_of(&net, "dense1")->out.dim[0], 512);
    network_release(&net);
    make(&net, "cifar-quick");
    is_shape(layer_of(&net, "pool1"), 16, 16, 32);
    is_shape(layer_of(&net, "average_pool2"), 4, 4, 64);
    network_release(&net);
    make(&net, "resnet20");
    is_shape(layer_of(&net, "layer1.2.relu2"), 32, 32, 16);
    is_shape(layer_of(&net, "layer2.0.add"), 16, 16, 32);
    is_shape(layer_of(&net, "layer3.0.downsample.0"), 8, 8, 64);
    assert_int_equal(layer_of(&net, "avgpool")->out.dim[0], 64);
    network_release(&net);
}

static void windows_strides_and_paddings_may_differ_by_axis(void **state)
{
    struct network net;
    make(&net,
         "{\"input\": [20, 31, 2], \"layers\": [{\"type\": \"conv2d\", \"filters\": 6, "
         "\"kernel\": [3, 5],"
         "\"stride\": [2, 3], \"padding\": [1, 0], \"bias\": false}, "
         "{\"type\": \"max_pool\", \"size\": [2, 4]},"
         "{\"type\": \"dense\", \"units\": 3}]}");
    is_shape(layer_of(&net, "conv1"), 10, 9, 6); /* (20+2-3)/2+1, (31-5)/3+1 */
    is_shape(layer_of(&net, "pool1"), 5, 2, 6);  /* stride: the size */
    const struct tensor *t = tensor_of(&net, "conv1.weight");
    const int64_t oihw[] = {6, 2, 3, 5};
    assert_memory_equal(t->dim, oihw, sizeof oihw);
    assert_int_equal(t->fan_in, 30);
    assert_int_equal(t->fan_out, 90);
    assert_int_equal(net.n_tensors, 3); /* no bias of the convolution */
    network_release(&net);
}

static void a_dense_layer_remembers_the_image_its_vector_came_from(void **state)
{
    static const char *const ways[] = {
        "{\"input\": [4, 5, 6], \"layers\": [{\"type\": \"dense\", \"units\": 3}]}",
        "{\"input\": [4, 5, 6], \"layers\": [{\"type\": \"flatten\"}, "
        "{\"type\": \"dense\", \"units\": 3}]}",
        ("{\"input\": [4, 5, 6], \"layers\": [{\"type\": \"flatten\"}, {\"type\": \"relu\"},"
         "{\"type\": \"dropout\"}, {\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 3}]}"),
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct network net;
        make(&net, ways[i]);
        const struct layer *l = layer_of(&net, "dense1");
        assert_int_equal(l->flat_from.rank, 3);
        assert_int_equal(l->flat_from.dim[0], 4);
        assert_int_equal(l->flat_from.dim[2], 6);
        const int64_t out_in[] = {3, 120};
        assert_memory_equal(tensor_of(&net, "dense1.weight")->dim, out_in, sizeof out_in);
        network_release(&net);
    }
}

static void tensors_fill_the_flat_block_in_the_order_of_the_layers(void **state)
{
    int n;
    const char *const *names = network_presets(&n);
    for (int i = 0; i < n; i++) {
        struct network net;
        make(&net, names[i]);
        size_t next = 0;
        for (int t = 0; t < net.n_tensors; t++) {
            const struct tensor *x = &net.tensors[t];
            size_t count = 1;
            for (int d = 0; d < x->rank; d++) {
                count *= (size_t)x->dim[d];
            }
            assert_int_equal(x->first, next);
            assert_int_equal(x->count, count);
            assert_true(t == 0 || x->layer >= net.tensors[t - 1].layer);
            assert_true(x->decay); /* of every parameter, as PyTorch has it */
            const struct layer *l = &net.layers[x->layer];
            assert_true(t >= l->first_tensor && t < l->first_tensor + l->n_tensors);
            assert_memory_equal(x->name, l->name, strlen(l->name));
            next += count;
        }
        assert_int_equal(net.n_params, next);
        next = 0;
        for (int t = 0; t < net.n_stats; t++) {
            assert_int_equal(net.stats[t].first, next);
            next += net.stats[t].count;
        }
        assert_int_equal(net.n_stat_floats, next);
        network_release(&net);
    }
}

static void layers_are_named_by_type_and_number_unless_they_are_given_one(void **state)
{
    struct network net;
    make(&net,
         "{\"input\": [8], \"layers\": [{\"type\": \"dense\", \"units\": 4}, {\"type\": \"relu\"},"
         "{\"type\": \"dense\", \"name\": \"middle\", \"units\": 4}, {\"type\": \"relu\"},"
         "{\"type\": \"dense\", \"units\": 2}]}");
    static const char *const want[] = {"dense1", "relu1", "middle", "relu2", "dense3"};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(net.layers[i].name, want[i]);
    }
    assert_string_equal(net.tensors[2].name, "middle.weight");
    assert_string_equal(net.tensors[3].name, "middle.bias");
    network_release(&net);
}

static void layers_may_name_their_inputs(void **state)
{
    struct network net;
    make(&net,
         "{\"input\": [6, 6, 4], \"layers\": ["
         "{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 4, \"kernel\": 3, \"padding\": 1},"
         "{\"type\": \"conv2d\", \"name\": \"b\", \"filters\": 4, \"kernel\": 1, "
         "\"inputs\": [\"input\"]},"
         "{\"type\": \"add\", \"inputs\": [\"a\", \"b\", \"input\"]},"
         "{\"type\": \"concat\", \"inputs\": [\"add1\", \"b\"]},"
         "{\"type\": \"global_average_pool\"}, {\"type\": \"dense\", \"units\": 2}]}");
    const struct layer *add = layer_of(&net, "add1"), *cat = layer_of(&net, "concat1");
    assert_int_equal(add->n_inputs, 3);
    assert_int_equal(add->inputs[0], 0);
    assert_int_equal(add->inputs[1], 1);
    assert_int_equal(add->inputs[2], -1);
    is_shape(add, 6, 6, 4);
    is_shape(cat, 6, 6, 8);
    assert_int_equal(layer_of(&net, "dense1")->in.dim[0], 8);
    json_t *j = network_json(&net);
    const json_t *inputs =
        json_object_get(json_array_get(json_object_get(j, "layers"), 2), "inputs");
    assert_string_equal(json_string_value(json_array_get(inputs, 2)), "input");
    json_decref(j);
    network_release(&net);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static const struct {
    const char *model, *pointer, *parts[3];
} mistakes[] = {
    {NET("{\"type\": \"flatten\"}, {\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 3}," END),
     "/model/layers/1",
     {"conv1", "[108]", "height, width and channels"}},
    {NET("{\"type\": \"conv2d\", \"name\": \"eye\", \"filters\": 2, \"kernel\": 7}," END),
     "/model/layers/0",
     {"'eye'", "7 x 7", "[6, 6, 3]"}},
    {NET("{\"type\": \"max_pool\", \"size\": [2, 9]}," END),
     "/model/layers/0",
     {"pool1", "2 x 9", "[6, 6, 3]"}},
    {NET("{\"type\": \"max_pool\", \"size\": 2, \"padding\": 2}," END),
     "/model/layers/0",
     {"pool1", "padding 2", "half"}},
    {NET("{\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 1}, "
         "{\"type\": \"add\", \"inputs\": [\"conv1\", \"input\"]}," END),
     "/model/layers/1",
     {"add1", "[6, 6, 2]", "[6, 6, 3]"}},
    {NET("{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"concat\", \"inputs\": [\"pool1\", "
         "\"input\"]}," END),
     "/model/layers/1",
     {"concat1", "[3, 3, 3]", "[6, 6, 3]"}},
    {NET("{\"type\": \"relu\"}, {\"type\": \"add\"}," END),
     "/model/layers/1/inputs",
     {"add1", "2 to 8 inputs", "not 1"}},
    {NET("{\"type\": \"relu\", \"inputs\": [\"dense1\"]}," END),
     "/model/layers/0/inputs/0",
     {"relu1", "\"dense1\"", "before"}}, /* an input stands before its use */
    {NET("{\"type\": \"relu\", \"name\": \"first\"}, "
         "{\"type\": \"relu\", \"inputs\": [\"frist\"]}," END),
     "/model/layers/1/inputs/0",
     {"did you mean 'first'"}},
    {NET("{\"type\": \"relu\"}, {\"type\": \"relu\", \"inputs\": [\"input\"]}," END),
     "/model/layers/0",
     {"nothing uses", "'relu1'"}},
    {NET("{\"type\": \"dens\", \"units\": 2}"), "/model/layers/0/type", {"'dense'"}},
    {"{\"input\": [28, 28.5, 1], \"layers\": [{\"type\": \"flatten\"}," END "]}",
     "/model/input/1",
     {"whole number"}},
    {NET("{\"type\": \"dense\"}"), "/model/layers/0/units", {"units"}},
    {NET("{\"type\": \"dense\", \"units\": 0}"), "/model/layers/0/units", {"1 to"}},
    {NET("{\"type\": \"dense\", \"units\": 2, \"unit\": 3}"),
     "/model/layers/0/unit",
     {"did you mean 'units'"}},
    {NET("{\"type\": \"dense\", \"name\": \"x\", \"units\": 2}, "
         "{\"type\": \"dense\", \"name\": \"x\", \"units\": 2}"),
     "/model/layers/1/name",
     {"'x'"}},
    {NET("{\"type\": \"relu\", \"name\": \"input\"}," END), "/model/layers/0/name", {"'input'"}},
    {NET("{\"type\": \"relu\", \"name\": \"a/b\"}," END),
     "/model/layers/0/name",
     {"'a/b'", "letters"}},
    {NET("{\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 3}"),
     "/model/layers/0",
     {"conv1", "[4, 4, 2]", "dense"}},
    {NET("{\"type\": \"flatten\"}"), "/model/layers/0", {"flatten1", "[6, 6, 3]", "dense"}},
    {"{\"input\": [4], \"layers\": [{\"type\": \"relu\"}]}", "/model/layers", {"no parameters"}},
    {NET(""), "/model/layers", {"1 to 1024"}},
    {"{\"layers\": [" END "]}", "/model/input", {"input"}},
    {"{\"input\": [4, 4], \"layers\": [" END "]}", "/model/input", {"[height, width, channels]"}},
    {"{\"input\": [0], \"layers\": [" END "]}", "/model/input/0", {"1 to"}},
    {"{\"input\": [65536, 65536, 3], \"layers\": [" END "]}", "/model/input", {"elements"}},
    {"{\"input\": [16777216], \"layers\": [{\"type\": \"dense\", \"units\": 1048576}]}",
     "/model/layers/0",
     {"dense1", "weights"}},
    {"{\"input\": [4], \"layers\": [" END "], \"loss\": \"mes\"}", "/model/loss", {"mse"}},
    {"{\"input\": [4], \"layers\": [" END "], \"layer\": 3}",
     "/model/layer",
     {"did you mean 'layers'"}},
};

static void mistakes_name_their_place_the_layer_and_its_shape(void **state)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct network net;
        struct jsonx_problems problems = {0};
        bool found = false;
        build(&net, mistakes[i].model, &problems);
        for (int k = 0; k < problems.count; k++) {
            bool fits = strcmp(problems.items[k].pointer, mistakes[i].pointer) == 0;
            for (int p = 0; p < 3 && mistakes[i].parts[p]; p++) {
                fits = fits && strstr(problems.items[k].message, mistakes[i].parts[p]);
            }
            found = found || fits;
        }
        if (!found) {
            fail_msg("%s: %d problems, first %s: %s", mistakes[i].model, problems.count,
                     problems.count ? problems.items[0].pointer : "",
                     problems.count ? problems.items[0].message : "");
        }
        jsonx_problems_release(&problems);
        network_release(&net);
    }
}

static void one_mistake_does_not_hide_or_cause_others(void **state)
{
    struct network net;
    struct jsonx_problems problems = {0};
    /* the first layer is impossible: the layers after it are checked, except their shapes */
    build(&net,
          NET("{\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 9}, {\"type\": \"relu\"}, "
              "{\"type\": \"dropout\", \"rate\": 2}," END),
          &problems);
    assert_int_equal(problems.count, 2);
    assert_string_equal(problems.items[0].pointer, "/model/layers/0");
    assert_string_equal(problems.items[1].pointer, "/model/layers/2/rate");
    jsonx_problems_release(&problems);
    network_release(&net);
}

/* The next layer would not fit the shape of the refused one. */
static void a_layer_that_is_too_large_gives_the_next_one_no_shape(void **state)
{
    static const char *const models[] = {
        "{\"input\": [16777216], \"layers\": [{\"type\": \"dense\", \"units\": 1048576},"
        "{\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 3}," END "]}",
        "{\"input\": [64, 64, 3], \"layers\": ["
        "{\"type\": \"conv2d\", \"filters\": 65536, \"kernel\": 64},"
        "{\"type\": \"max_pool\", \"size\": 3}, {\"type\": \"flatten\"}," END "]}"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct network net;
        struct jsonx_problems problems = {0};
        assert_true(build(&net, models[i], &problems) < 0);
        assert_int_equal(problems.count, 1);
        assert_string_equal(problems.items[0].pointer, "/model/layers/0");
        assert_non_null(strstr(problems.items[0].message, "weights, more than"));
        jsonx_problems_release(&problems);
        network_release(&net);
    }
}

static void networks_grown_beyond_any_memory_are_refused(void **state)
{
    /* channels times eight with every concat of one layer with itself */
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"input\": [4000, 4000, 1], \"layers\": [{\"type\": \"relu\"}");
    for (int i = 0; i < 6; i++) {
        char in[24];
        if (i == 0) {
            snprintf(in, sizeof in, "\"relu1\"");
        } else {
            snprintf(in, sizeof in, "\"concat%d\"", i);
        }
        n += (size_t)snprintf(text + n, sizeof text - n,
                              ", {\"type\": \"concat\", \"inputs\": [%s,%s,%s,%s,%s,%s,%s,%s]}", in,
                              in, in, in, in, in, in, in);
    }
    snprintf(text + n, sizeof text - n, ", {\"type\": \"flatten\"}," END "]}");
    struct network net;
    struct jsonx_problems problems = {0};
    assert_true(build(&net, text, &problems) < 0);
    assert_string_equal(problems.items[0].pointer, "/model/layers/2");
    assert_non_null(strstr(problems.items[0].message, "would have 1024000000 outputs per sample"));
    jsonx_problems_release(&problems);
    network_release(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_parameters_of_the_table),
        cmocka_unit_test(an_unknown_preset_gets_the_nearest_name),
        cmocka_unit_test(a_preset_and_its_layers_written_out_are_one_network),
        cmocka_unit_test(the_json_of_a_network_builds_it_again),
        cmocka_unit_test(shapes_follow_from_layer_to_layer),
        cmocka_unit_test(windows_strides_and_paddings_may_differ_by_axis),
        cmocka_unit_test(a_dense_layer_remembers_the_image_its_vector_came_from),
        cmocka_unit_test(tensors_fill_the_flat_block_in_the_order_of_the_layers),
        cmocka_unit_test(layers_are_named_by_type_and_number_unless_they_are_given_one),
        cmocka_unit_test(layers_may_name_their_inputs),
        cmocka_unit_test(mistakes_name_their_place_the_layer_and_its_shape),
        cmocka_unit_test(one_mistake_does_not_hide_or_cause_others),
        cmocka_unit_test(a_layer_that_is_too_large_gives_the_next_one_no_shape),
        cmocka_unit_test(networks_grown_beyond_any_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

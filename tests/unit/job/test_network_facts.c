/* Facts about a network: initial values depend only on seed and tensor name, size and work are
 * counted per sample, and the hash covers what step time depends on (job/network/facts.c).
 */
#include "tests/unit/job/networks.h"

/* ---- initial values -------------------------------------------------------------------------- */

static float *init(const struct network *net, uint64_t seed, float **stats)
{
    float *params = malloc((net->n_params + 1) * sizeof *params);
    float *s = malloc((net->n_stat_floats + 1) * sizeof *s);
    params[net->n_params] = s[net->n_stat_floats] =
        12345; /* nothing is written behind the blocks */
    network_init(net, seed, params, s);
    assert_true(params[net->n_params] == 12345 && s[net->n_stat_floats] == 12345);
    if (stats) {
        *stats = s;
    } else {
        free(s);
    }
    return params;
}

static void weights_before_a_relu_are_he_normal_and_others_glorot(void **state)
{
    struct network net;
    make(&net, "lenet5");
    float *p = init(&net, 5, NULL);
    for (int i = 0; i < net.n_tensors; i++) {
        const struct tensor *t = &net.tensors[i];
        double sum = 0, square = 0, most = 0, limit = sqrt(6.0 / (t->fan_in + t->fan_out));
        for (size_t k = 0; k < t->count; k++) {
            double x = p[t->first + k];
            sum += x;
            square += x * x;
            most = fmax(most, fabs(x));
        }
        double n = (double)t->count, deviation = sqrt(square / n);
        if (t->rank == 1) {
            assert_true(most == 0); /* biases */
            continue;
        }
        bool last = strcmp(t->name, "dense2.weight") == 0;
        double want = last ? limit / sqrt(3.0) : sqrt(2.0 / t->fan_in);
        assert_int_equal(t->he, !last);
        assert_true(fabs(sum / n) < 5 * want / sqrt(n));
        if (fabs(deviation / want - 1) > 5 / sqrt(2 * n)) {
            fail_msg("%s deviates by %g instead of %g", t->name, deviation, want);
        }
        assert_true(last ? most <= limit * (1 + 1e-6) : most > 2 * want); /* a normal has tails */
    }
    free(p);
    network_release(&net);
}

static void a_relu_is_seen_through_norms_and_pools_but_not_through_weights(void **state)
{
    struct network net;
    make(&net,
         NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"batch_norm\"}, "
             "{\"type\": \"max_pool\", \"size\": 2},"
             "{\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 5}, {\"type\": \"tanh\"}, "
             "{\"type\": \"dense\", \"units\": 5},"
             "{\"type\": \"dense\", \"units\": 5}, {\"type\": \"relu\"}," END));
    assert_true(tensor_of(&net, "conv1.weight")->he);
    assert_true(tensor_of(&net, "dense3.weight")->he);
    assert_false(tensor_of(&net, "dense2.weight")->he);
    assert_false(tensor_of(&net, "dense4.weight")->he);
    network_release(&net);
}

static void norms_begin_as_the_identity(void **state)
{
    struct network net;
    float *stats, *p;
    make(&net, "resnet20");
    p = init(&net, 1, &stats);
    const struct tensor *w = tensor_of(&net, "layer2.1.bn1.weight"),
                        *b = tensor_of(&net, "layer2.1.bn1.bias");
    for (size_t k = 0; k < w->count; k++) {
        assert_true(p[w->first + k] == 1 && p[b->first + k] == 0);
    }
    for (int i = 0; i < net.n_stats; i++) {
        bool variance = strstr(net.stats[i].name, ".running_var") != NULL;
        for (size_t k = 0; k < net.stats[i].count; k++) {
            assert_true(stats[net.stats[i].first + k] == (variance ? 1.0f : 0.0f));
        }
    }
    free(p);
    free(stats);
    network_release(&net);
}

static void initial_values_depend_on_seed_and_tensor_name_alone(void **state)
{
    struct network small, large;
    make(&small,
         "{\"input\": [6], \"layers\": [{\"type\": \"dense\", \"name\": \"a\", \"units\": 8}, "
         "{\"type\": \"relu\"},"
         "{\"type\": \"dense\", \"name\": \"z\", \"units\": 3}]}");
    make(&large,
         "{\"input\": [6], \"layers\": [{\"type\": \"dense\", \"name\": \"new\", \"units\": 6}, "
         "{\"type\": \"dense\", \"name\": \"a\","
         "\"units\": 8}, {\"type\": \"relu\"}, {\"type\": \"dense\", \"name\": \"wide\", "
         "\"units\": 8}, {\"type\": \"dense\", \"name\": \"z\", \"units\": 3}]}");
    float *p = init(&small, 9, NULL), *q = init(&large, 9, NULL), *again = init(&small, 9, NULL),
          *other = init(&small, 10, NULL);
    assert_memory_equal(p, again, small.n_params * sizeof *p);
    static const char *const both[] = {"a.weight", "a.bias", "z.weight", "z.bias"};
    for (int i = 0; i < 4; i++) {
        const struct tensor *s = tensor_of(&small, both[i]), *l = tensor_of(&large, both[i]);
        assert_memory_equal(p + s->first, q + l->first, s->count * sizeof *p);
    }
    const struct tensor *a = tensor_of(&small, "a.weight"), *z = tensor_of(&small, "z.weight");
    const struct tensor *fresh = tensor_of(&large, "new.weight");
    int same_seed = 0, same_name = 0;
    for (size_t k = 0; k < z->count; k++) {
        same_seed += p[a->first + k] == other[a->first + k];
        same_name += q[fresh->first + k] == p[a->first + k];
    }
    assert_int_equal(same_seed, 0);
    assert_int_equal(same_name, 0);
    free(p);
    free(q);
    free(again);
    free(other);
    network_release(&small);
    network_release(&large);
}

/* ---- size, work, hash ------------------------------------------------------------------------ */

static void work_and_memory_are_counted_per_sample(void **state)
{
    struct network net;
    make(&net, "mlp");
    assert_int_equal(network_activation_bytes(&net), 4 * (784 + 128 + 128 + 10));
    assert_true(network_flops(&net) == 2.0 * 784 * 128 + 128 + 2.0 * 128 * 10);
    network_release(&net);
    make(&net, "lenet5");
    double weights = 2.0 * (28 * 28 * 25.0 * 32 + 14 * 14 * 25.0 * 32 * 64 + 3136.0 * 512 + 5120);
    assert_true(network_flops(&net) >= weights && network_flops(&net) < 1.05 * weights);
    network_release(&net);
}

static void an_outline_says_what_each_layer_gives_and_has(void **state)
{
    struct network net;
    make(&net, "mlp");
    json_t *outline = network_outline(&net);
    json_t *last = json_array_get(outline, json_array_size(outline) - 1);
    json_int_t parameters = 0;
    size_t i;
    json_t *one, *shape = json_object_get(last, "shape");
    json_array_foreach(outline, i, one) {
        parameters += json_integer_value(json_object_get(one, "parameters"));
    }
    assert_int_equal(json_array_size(outline), net.n_layers);
    assert_int_equal(parameters, net.n_params);
    assert_string_equal(json_string_value(json_object_get(last, "type")), "dense");
    assert_int_equal(json_array_size(shape), 1);
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), 10);
    assert_int_equal(json_integer_value(json_object_get(last, "parameters")), 129 * 10);
    json_decref(outline);
    network_release(&net);
}

static void hash_of(const char *text, char out[17])
{
    struct network net;
    make(&net, text);
    network_hash(&net, out);
    assert_int_equal(strlen(out), 16);
    assert_int_equal(strspn(out, "0123456789abcdef"), 16);
    network_release(&net);
}

static void the_hash_is_stable_across_versions(void **state)
{
    /* profiles are kept under it: if it changes, every node is measured again. Change it only on
     * purpose. */
    static const char *const known[][2] = {{"mlp", "a044b9f1fd8525cb"},
                                           {"lenet5", "fe8505b1d83525e3"},
                                           {"resnet20", "5186b56e936700fa"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char h[17];
        hash_of(known[i][0], h);
        assert_string_equal(h, known[i][1]);
    }
}

static void the_hash_tells_networks_of_different_step_times_apart(void **state)
{
    static const char *const all[] = {
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, \"padding\": 1, "
            "\"stride\": 2}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, \"bias\": false}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": [1, 3], \"padding\": [0, 1]}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": [3, 1], \"padding\": [1, 0]}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"relu\"}," END),
        NET("{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"tanh\"}," END),
        NET("{\"type\": \"max_pool\", \"size\": 2}," END),
        NET("{\"type\": \"average_pool\", \"size\": 2}," END),
        NET("{\"type\": \"lrn\"}," END),
        NET("{\"type\": \"lrn\", \"window\": 9}," END),
        NET(END),
        "{\"input\": [6, 6, 3], \"layers\": [" END "], \"loss\": \"mse\"}",
        "{\"input\": [108], \"layers\": [" END "]}",
        NET("{\"type\": \"relu\"}, {\"type\": \"relu\"}, {\"type\": \"add\", "
            "\"inputs\": [\"relu1\", \"relu2\"]}," END),
        NET("{\"type\": \"relu\"}, {\"type\": \"relu\"}, {\"type\": \"add\", "
            "\"inputs\": [\"relu2\", \"input\"]}," END),
    };
    enum { N = sizeof all / sizeof *all };
    char h[N][17];
    for (int i = 0; i < N; i++) {
        hash_of(all[i], h[i]);
        for (int k = 0; k < i; k++) {
            if (strcmp(h[i], h[k]) == 0) {
                fail_msg("%s and %s", all[k], all[i]);
            }
        }
    }
}

/* A program's network only has tensors. */
static void the_hash_of_a_program_depends_on_names_and_shapes_of_its_tensors(void **state)
{
    struct tensor tensors[2] = {{.name = "a", .rank = 2, .dim = {3, 4}}, {.name = "b", .rank = 1}};
    struct network net = {.tensors = tensors, .n_tensors = 2};
    char first[17], other[17];
    (void)state;
    tensors[1].dim[0] = 4;
    network_hash(&net, first);
    tensors[0].dim[1] = 5;
    network_hash(&net, other);
    assert_string_not_equal(first, other);
    tensors[0].dim[1] = 4;
    network_hash(&net, other);
    assert_string_equal(first, other);
    tensors[1].name[0] = 'c';
    network_hash(&net, other);
    assert_string_not_equal(first, other);
}

static void the_hash_does_not_depend_on_names(void **state)
{
    char a[17], b[17];
    hash_of(NET("{\"type\": \"relu\"}," END), a);
    hash_of(NET("{\"type\": \"relu\", \"name\": \"x\"}, {\"type\": \"dense\", \"units\": 2, "
                "\"name\": \"y\", \"inputs\": [\"x\"]}"),
            b);
    assert_string_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_before_a_relu_are_he_normal_and_others_glorot),
        cmocka_unit_test(a_relu_is_seen_through_norms_and_pools_but_not_through_weights),
        cmocka_unit_test(norms_begin_as_the_identity),
        cmocka_unit_test(initial_values_depend_on_seed_and_tensor_name_alone),
        cmocka_unit_test(work_and_memory_are_counted_per_sample),
        cmocka_unit_test(an_outline_says_what_each_layer_gives_and_has),
        cmocka_unit_test(the_hash_is_stable_across_versions),
        cmocka_unit_test(the_hash_tells_networks_of_different_step_times_apart),
        cmocka_unit_test(the_hash_does_not_depend_on_names),
        cmocka_unit_test(the_hash_of_a_program_depends_on_names_and_shapes_of_its_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

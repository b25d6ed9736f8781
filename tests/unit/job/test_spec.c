/* The job spec: what is accepted, what is refused and where, and the defaults that are written out.
 */
#include "tests/unit/job/parsed.h"

#include <math.h>
#include <stdio.h>

#include "job/spec/cluster.h"

static const char example[] =
    "{\"name\": \"mnist-lenet\", \"model\": \"lenet5\", \"data\": {\"format\": \"idx\", "
    "\"path\": \"mnist\"},"
    "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9, "
    "\"schedule\": {\"type\": \"step\", \"at_epochs\": [8], \"factor\": 0.1}},"
    "\"strategy\": {\"type\": \"sync\"}, \"batching\": {\"global_batch\": 256, "
    "\"policy\": \"dynamic\"}, \"workers\": 4, \"epochs\": 10, \"seed\": 1}";

static struct parsed *parse_with(const char *patch)
{
    return parse_patched(example, patch);
}

static void the_example_of_the_design_is_read(void **state)
{
    struct parsed *p = parse_with("{}");
    assert_int_equal(p->rc, 0);
    const struct jobspec *s = &p->spec;
    assert_string_equal(s->name, "mnist-lenet");
    assert_int_equal(s->network.n_params, 1663370);
    assert_int_equal(s->data.format, CAT_FORMAT_IDX);
    assert_string_equal(s->data.path, "mnist");
    assert_true(s->data.shuffle && s->data.normalize_unit);
    assert_int_equal(s->batching.global_batch, 256);
    assert_int_equal(s->batching.policy, BATCH_DYNAMIC);
    assert_int_equal(s->batching.min_batch, 1);
    assert_int_equal(s->workers, 4);
    assert_int_equal(s->min_workers, 1);
    assert_int_equal(s->evaluate_every_epochs, 1);
    assert_int_equal(s->checkpoint_every_seconds, 30);
    assert_false(jobspec_uses_server(s));
    done(p);
}

static void a_spec_with_its_defaults_written_out_parses_to_the_same(void **state)
{
    struct parsed *p = parse_with(
        "{\"strategy\": {\"type\": \"asgd\"}, \"target\": {\"test_accuracy\": 0.98}, "
        "\"evaluate\": {\"every_steps\": 50},"
        "\"data\": {\"format\": \"idx\", \"path\": \"mnist\", \"normalize\": {\"mean\": [0.1], "
        "\"deviation\": [0.3]}}}");
    assert_int_equal(p->rc, 0);
    struct parsed *again = parse_json(p->spec.json);
    assert_int_equal(again->rc, 0);
    assert_true(json_equal(p->spec.json, again->spec.json));
    assert_true(again->spec.evaluate_every_steps == 50 && again->spec.evaluate_every_epochs == 0);
    assert_true(fabs(again->spec.data.deviation[0] - 0.3) < 1e-6);
    assert_true(jobspec_uses_server(&again->spec));
    assert_int_equal(again->spec.strategy.servers, 1);
    done(again);
    done(p);
}

static void the_bounds_of_an_elastic_job_are_its_workers(void **state)
{
    struct parsed *p = parse_with("{\"elastic\": {\"min\": 2, \"max\": 4}}");
    assert_int_equal(p->rc, 0);
    assert_true(p->spec.workers == 4 && p->spec.min_workers == 2 &&
                jobspec_least_workers(&p->spec) == 2);
    struct parsed *again = parse_json(p->spec.json);
    assert_int_equal(again->rc, 0);
    assert_true(json_equal(p->spec.json, again->spec.json));
    json_t *three = jobspec_resized(p->spec.json, 3);
    struct parsed *fewer = parse_json(three);
    assert_int_equal(fewer->rc, 0);
    assert_true(fewer->spec.workers == 3 && fewer->spec.min_workers == 2 &&
                fewer->spec.elastic.max == 0);
    json_decref(three);
    done(fewer);
    done(again);
    done(p);
}

static void every_mistake_is_reported_at_once_with_its_place(void **state)
{
    struct parsed *p = parse_with(
        "{\"worker\": 4, \"epochs\": 0, \"strategy\": {\"type\": \"snyc\"}, "
        "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": \"fast\","
        "\"momentun\": 0.9}, \"data\": {\"format\": \"idx\"}, \"model\": {\"input\": [4], "
        "\"layers\": [{\"type\": \"conv2d\", \"filters\": 3, \"kernel\": 3}]},"
        "\"batching\": {\"global_batch\": -1}}");
    assert_true(has(p, "/worker", "did you mean 'workers'"));
    assert_true(has(p, "/epochs", "from 1 to"));
    assert_true(has(p, "/strategy/type", "did you mean 'sync'"));
    assert_true(has(p, "/optimizer/learning_rate", "\"fast\""));
    assert_true(has(p, "/optimizer/momentun", "did you mean 'momentum'"));
    assert_true(has(p, "/data/path", "needed"));
    assert_true(has(p, "/batching/global_batch", "from 1 to"));
    assert_true(p->problems.count >= 8); /* and the convolution over a vector */
    done(p);
}

static void a_key_that_stands_beside_its_section_is_told_where_it_belongs(void **state)
{
    static const char *const places[][2] = {
        {"layers", "model"},     {"learning_rate", "optimizer"}, {"schedule", "optimizer"},
        {"format", ""},          {"global_batch", "batching"},   {"policy", "batching"},
        {"servers", "strategy"}, {"test_accuracy", "target"},    {"every_seconds", "checkpoint"},
        {"every_steps", ""}, /* of two sections */
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char patch[80], pointer[40], part[40] = "is not known here";
        snprintf(patch, sizeof patch, "{\"%s\": 1}", places[i][0]);
        snprintf(pointer, sizeof pointer, "/%s", places[i][0]);
        if (places[i][1][0]) {
            snprintf(part, sizeof part, "belongs into '%s'", places[i][1]);
        }
        refused_with(parse_with(patch), patch, pointer, part);
    }
}

static void sizes_must_fit_the_global_batch_and_the_workers(void **state)
{
    static const struct {
        const char *patch, *pointer, *part;
    } cases[] = {
        {"{\"batching\": {\"global_batch\": 3, \"policy\": \"equal\"}}", "/batching/global_batch",
         "less than 4 workers"},
        {"{\"batching\": {\"global_batch\": 64, \"policy\": \"static\"}}", "/batching",
         "needs 'sizes' or 'weights'"},
        {"{\"batching\": {\"global_batch\": 64, \"policy\": \"static\", "
         "\"sizes\": [28, 20, 12, 5]}}",
         "/batching/sizes", "sum to 65"},
        {"{\"batching\": {\"global_batch\": 64, \"policy\": \"static\", \"sizes\": [32, 32]}}",
         "/batching/sizes", "must be 4 numbers"},
        {"{\"batching\": {\"global_batch\": 64, \"policy\": \"static\", "
         "\"weights\": [0, 0, 0, 0]}}",
         "/batching/weights", "not all 0"},
        {"{\"batching\": {\"global_batch\": 64, \"policy\": \"equal\", "
         "\"sizes\": [16, 16, 16, 16]}}",
         "/batching/sizes", "belongs to the policy 'static'"},
        {"{\"batching\": {\"global_batch\": 64, \"max_batch\": 15}}", "/batching/max_batch",
         "is more than 4 workers times"},
        {"{\"batching\": {\"global_batch\": 64.5}}", "/batching/global_batch", "whole number"},
        {"{\"min_workers\": 5}", "/min_workers", "more than 'workers' 4"},
        {"{\"elastic\": {\"min\": 3, \"max\": 2}, \"workers\": 2}", "/elastic/min",
         "more than 'max' 2"},
        {"{\"elastic\": {\"min\": 2}}", "/elastic/max", "is needed"},
        {"{\"elastic\": {\"min\": 2, \"max\": 6}}", "/workers", "with 'elastic' it is its 'max'"},
        {"{\"elastic\": {\"min\": 2, \"max\": 4}, \"min_workers\": 1}", "/min_workers",
         "with 'elastic' it is its 'min'"},
        {"{\"elastic\": {\"min\": 1, \"max\": 4}, \"batching\": {\"global_batch\": 64, "
         "\"max_batch\": 20}}",
         "/elastic", "not possible with 3 of up to 4 nodes: /batching/max_batch: "},
        {"{\"elastic\": {\"min\": 1, \"max\": 4}, \"batching\": {\"global_batch\": 64, "
         "\"policy\": \"static\", \"sizes\": [16, 16, 16, 16]}}",
         "/elastic", "'sizes' and 'elastic' exclude each other"},
        {"{\"elastic\": {\"min\": 1, \"max\": 4}, \"cluster\": {\"nodes\": [{\"name\": \"a\", "
         "\"count\": 4, \"fixed_seconds\": 1}]}}",
         "/elastic", "virtual cluster"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refused_with(parse_with(cases[i].patch), cases[i].patch, cases[i].pointer, cases[i].part);
    }
}

static void weights_need_not_be_whole(void **state)
{
    struct parsed *p = parse_with(
        "{\"batching\": {\"global_batch\": 64, \"policy\": \"static\", "
        "\"weights\": [1, 0.5, 0.25, 2.5]}}");
    assert_int_equal(p->rc, 0);
    const struct batching_spec *b = &p->spec.batching;
    assert_true(b->n_weights == 4 && b->n_sizes == 0);
    assert_true(b->weights[1] == 0.5 && b->weights[2] == 0.25 && b->weights[3] == 2.5);
    done(p);
}

static void values_outside_of_what_a_key_may_have_are_refused(void **state)
{
    static const struct {
        const char *patch, *pointer, *part;
    } cases[] = {
        {"{\"workers\": 2000}", "/workers", "from 1 to 1024"},
        {"{\"evaluate\": {\"every_epochs\": 1, \"every_steps\": 5}}", "/evaluate/every_steps",
         "exclude each other"},
        {"{\"target\": {\"test_accuracy\": 1.5}}", "/target/test_accuracy", "to 1, not 1.5"},
        {"{\"model\": {\"input\": [4], \"loss\": \"mse\", \"layers\": [{\"type\": \"dense\", "
         "\"units\": 1}]}, \"data\": {\"format\": \"npy\", \"path\": \"x\"}, "
         "\"target\": {\"test_accuracy\": 0.5}}",
         "/target", "no accuracy"},
        {"{\"data\": {\"format\": \"npy\", \"path\": \"../x\"}}", "/data/path",
         "beneath a data root"},
        {"{\"data\": {\"format\": \"npy\", \"path\": \"/etc\"}}", "/data/path",
         "beneath a data root"},
        {"{\"model\": {\"input\": [5], \"layers\": [{\"type\": \"dense\", \"units\": 10}]}, "
         "\"data\": {\"format\": \"glyphs\"}}",
         "/model", "784"},
        {"{\"precision\": \"fp16\"}", "/precision", "bf16"},
        {"{\"precision\": \"bf16\", \"cluster\": {\"nodes\": [{\"name\": \"a\", \"count\": 4, "
         "\"fixed_seconds\": 1}]}}",
         "/precision", "simulator"},
        {"{\"name\": \"a\\u0007b\"}", "/name", "control character"},
        {"{\"name\": \"a\\u009bb\"}", "/name", "control character"},
        {"{\"name\": \"gnp.\\u202eexe\"}", "/name", "control character"},
        {"{\"name\": \"a\\u200bb\"}", "/name", "the invisible character U+200B at byte 1"},
        {"{\"name\": \"\\ufeffrun\"}", "/name", "the invisible character U+FEFF at byte 0"},
        {"{\"name\": \"  \"}", "/name", "consists of blanks"},
        {"{\"cluster\": {\"nodes\": [{\"name\": \"a\\u200d\", \"fixed_seconds\": 1}]}}",
         "/cluster/nodes/0/name", "the invisible character U+200D"},
        {"{\"optimizer\": {\"schedule\": {\"type\": \"step\", \"at_epochs\": [4, 4]}}}",
         "/optimizer/schedule/at_epochs", "must rise"},
        {"{\"optimizer\": {\"schedule\": {\"type\": \"step\"}}}", "/optimizer/schedule/at_epochs",
         "missing"},
        {"{\"cluster\": {\"nodes\": [{\"name\": \"a\", \"count\": 2, \"fixed_seconds\": 1}]}}",
         "/workers", "more than the 2 nodes"},
        {"{\"cluster\": {\"nodes\": [{\"name\": \"a\", \"fixed_second\": 1}]}}",
         "/cluster/nodes/0/fixed_second", "did you mean 'fixed_seconds'"},
        {"{\"cluster\": {\"nodes\": [{\"name\": \"a\", \"count\": 4, \"fixed_seconds\": 1}], "
         "\"groups\": [[\"a-1\", \"b\"]]}}",
         "/cluster/groups/0/1", "no node \"b\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refused_with(parse_with(cases[i].patch), cases[i].patch, cases[i].pointer, cases[i].part);
    }
}

static void other_kinds_than_an_object_are_refused(void **state)
{
    json_t *kinds[] = {json_array(), json_string("x"), json_integer(3), json_null(), json_true()};
    for (int i = 0; i < 5; i++) {
        struct parsed *p = parse_json(kinds[i]);
        assert_true(p->rc < 0);
        done(p);
        json_decref(kinds[i]);
    }
}

static void any_value_under_any_key_is_reported_and_nothing_breaks(void **state)
{
    static const char *const keys[] = {
        "name",        "model",  "data", "optimizer", "strategy",         "batching",    "workers",
        "min_workers", "epochs", "seed", "priority",  "max_restarts",     "max_seconds", "evaluate",
        "checkpoint",  "target", "init", "precision", "max_wall_seconds", "exchange",    "nodes",
        "cluster",     "elastic"};
    static const char *const values[] = {"[]",
                                         "{}",
                                         "\"\"",
                                         "-1",
                                         "1e300",
                                         "true",
                                         "[[[]]]",
                                         "{\"type\": 3}",
                                         "{\"nodes\": 3}",
                                         "[null]",
                                         "\"\\ud83d\\ude00\""};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char patch[200];
            snprintf(patch, sizeof patch, "{\"%s\": %s}", keys[k], values[v]);
            struct parsed *p = parse_with(patch);
            for (int i = 0; i < p->problems.count; i++) {
                assert_true(p->problems.items[i].message[0] != 0);
            }
            done(p);
        }
    }
}

static json_t *named_nodes(int count, int bytes)
{
    json_t *list = json_array();
    char name[80];
    memset(name, 'n', sizeof name);
    for (int i = 0; i < count; i++) {
        json_array_append_new(list, json_stringn(name, (size_t)bytes));
    }
    return json_pack("{s:o}", "nodes", list);
}

static int problems_with(json_t *patch)
{
    char *text = json_dumps(patch, 0);
    struct parsed *p = parse_with(text);
    int count = p->problems.count;
    done(p);
    free(text);
    json_decref(patch);
    return count;
}

static void nodes_are_64_names_of_63_bytes_at_most(void **state)
{
    assert_int_equal(problems_with(named_nodes(64, 63)), 0);
    assert_int_equal(problems_with(named_nodes(65, 63)), 1);
    assert_int_equal(problems_with(named_nodes(64, 64)), 1);
    assert_int_equal(problems_with(named_nodes(1, 1)), 0);
    assert_int_equal(problems_with(named_nodes(1, 0)), 1);
}

static void epochs_of_a_schedule_that_do_not_rise_are_one_problem(void **state)
{
    struct parsed *p = parse_with(
        "{\"optimizer\": {\"learning_rate\": 1, \"schedule\": "
        "{\"type\": \"step\", \"at_epochs\": [5, 4, 4, 3]}}}");
    assert_int_equal(p->problems.count, 1);
    assert_string_equal(p->problems.items[0].pointer, "/optimizer/schedule/at_epochs");
    assert_string_equal(p->problems.items[0].message, "'at_epochs' must rise: 4 follows 5");
    done(p);
}

static void schedules_follow_the_epoch(void **state)
{
    struct parsed *p = parse_with("{}");
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 7.99) - 0.05) < 1e-12);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 8) - 0.005) < 1e-12);
    done(p);
    p = parse_with(
        "{\"optimizer\": {\"learning_rate\": 1, \"schedule\": {\"type\": \"cosine\", "
        "\"floor\": 0.1, \"warmup_epochs\": 2}}}");
    assert_int_equal(p->rc, 0);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 0)) < 1e-12);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 0.5) - 0.25) < 1e-12);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 1) - 0.5) < 1e-12);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 2) - 1) < 1e-12);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 6) - 0.55) < 1e-12);
    assert_true(fabs(jobspec_rate(&p->spec.optimizer, 10) - 0.1) < 1e-12);
    done(p);
}

static void a_cluster_counts_its_nodes_and_gives_the_workers(void **state)
{
    static const char text[] =
        "{\"seed\": 7, \"nodes\": [{\"name\": \"fast\", \"count\": 2, \"fixed_seconds\": 0.002}, "
        "{\"name\": \"slow\", \"seconds_per_sample\": 0.002}],"
        "\"groups\": [[\"fast-1\", \"fast-2\"], [\"slow\"]], "
        "\"links\": {\"latency_seconds\": 0.0001, \"bytes_per_second\": 1.25e8}}";
    struct jsonx_problems problems = {0};
    struct err e;
    struct cluster *c = malloc(sizeof *c);
    json_t *j = jsonx_parse(text, strlen(text), &e);
    assert_int_equal(cluster_parse(c, j, "", &problems), 0);
    assert_int_equal(c->n_nodes, 3);
    assert_string_equal(c->nodes[1].name, "fast-2");
    assert_int_equal(c->nodes[2].group, 1);
    assert_true(c->group_links.bytes_per_second == 1.25e8 && c->server.bytes_per_second == 0);
    json_t *spec = jsonx_parse(example, strlen(example), &e);
    json_object_del(spec, "workers");
    json_object_set_new(spec, "cluster", j);
    struct parsed *p = parse_json(spec);
    assert_int_equal(p->rc, 0);
    assert_int_equal(p->spec.workers, 3);
    done(p);
    json_decref(spec);
    free(c);
}

static void the_schema_lists_every_key_that_is_accepted(void **state)
{
    struct parsed *p = parse_with(
        "{\"init\": \"a.safetensors\", \"nodes\": [\"a\"], \"target\": {\"test_accuracy\": 0.9}}");
    assert_int_equal(p->rc, 0);
    json_t *schemas = jobspec_schemas(), *schema = json_object_get(schemas, "JobSpec");
    const char *key;
    json_t *value;
    json_object_foreach(p->spec.json, key, value) {
        if (!json_object_get(json_object_get(schema, "properties"), key)) {
            fail_msg("the schema lacks '%s'", key);
        }
    }
    json_decref(schemas);
    done(p);
}

static void check_defaults(json_t *j, const char *where)
{
    const char *key;
    json_t *value, *fallback = json_object_get(j, "default"), *low = json_object_get(j, "minimum"),
                   *high = json_object_get(j, "maximum");
    size_t i;
    if (json_is_number(fallback) && json_is_number(low) &&
        (json_number_value(fallback) < json_number_value(low) ||
         json_number_value(fallback) > json_number_value(high))) {
        fail_msg("the default of '%s' is not within its bounds", where);
    }
    json_object_foreach(j, key, value) {
        check_defaults(value, key);
    }
    json_array_foreach(j, i, value) {
        check_defaults(value, where);
    }
}

static void check_required(json_t *schemas, const char *name, const char *key)
{
    json_t *required = json_object_get(json_object_get(schemas, name), "required");
    assert_int_equal(json_array_size(required), 1);
    assert_string_equal(json_string_value(json_array_get(required, 0)), key);
}

static void a_virtual_cluster_needs_nodes_and_a_node_its_name_alone(void **state)
{
    json_t *schemas = jobspec_schemas();
    (void)state;
    check_required(schemas, "ClusterSpec", "nodes");
    check_required(schemas, "ClusterNode", "name");
    json_decref(schemas);
}

static void every_default_is_a_value_that_its_schema_allows(void **state)
{
    json_t *schemas = jobspec_schemas();
    (void)state;
    check_defaults(schemas, "");
    assert_true(json_object_size(schemas) > 40);
    json_decref(schemas);
}

static void a_value_that_is_told_is_cut_between_two_characters(void **state)
{
    (void)state;
    struct parsed *p = parse_with(
        "{\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": \"ääääääääääääääääääääääää\"}}");
    assert_true(has(p, "/optimizer/learning_rate", "\"äääääääääääääääää..."));
    done(p);
}

/* The first value of this key with choices, at any depth; NULL: none. */
static const json_t *choice_of(const json_t *j, const char *key)
{
    const json_t *found = json_object_get(j, key);
    json_t *value;
    const char *name;
    size_t i;
    if (json_object_get(found, "enum")) {
        return found;
    }
    found = NULL;
    json_object_foreach((json_t *)(uintptr_t)j, name, value) {
        found = found ? found : choice_of(value, key);
    }
    json_array_foreach(j, i, value) {
        found = found ? found : choice_of(value, key);
    }
    return found;
}

static void a_choice_names_its_usual_value_in_the_schema(void **state)
{
    json_t *schemas = jobspec_schemas();
    const json_t *labels = choice_of(schemas, "labels");
    const char *usual = json_string_value(json_object_get(labels, "default"));
    (void)state;
    assert_true(usual && strcmp(usual, "fine") == 0);
    json_decref(schemas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_design_is_read),
        cmocka_unit_test(a_spec_with_its_defaults_written_out_parses_to_the_same),
        cmocka_unit_test(the_bounds_of_an_elastic_job_are_its_workers),
        cmocka_unit_test(every_mistake_is_reported_at_once_with_its_place),
        cmocka_unit_test(a_key_that_stands_beside_its_section_is_told_where_it_belongs),
        cmocka_unit_test(sizes_must_fit_the_global_batch_and_the_workers),
        cmocka_unit_test(weights_need_not_be_whole),
        cmocka_unit_test(values_outside_of_what_a_key_may_have_are_refused),
        cmocka_unit_test(other_kinds_than_an_object_are_refused),
        cmocka_unit_test(any_value_under_any_key_is_reported_and_nothing_breaks),
        cmocka_unit_test(nodes_are_64_names_of_63_bytes_at_most),
        cmocka_unit_test(epochs_of_a_schedule_that_do_not_rise_are_one_problem),
        cmocka_unit_test(schedules_follow_the_epoch),
        cmocka_unit_test(a_cluster_counts_its_nodes_and_gives_the_workers),
        cmocka_unit_test(the_schema_lists_every_key_that_is_accepted),
        cmocka_unit_test(every_default_is_a_value_that_its_schema_allows),
        cmocka_unit_test(a_virtual_cluster_needs_nodes_and_a_node_its_name_alone),
        cmocka_unit_test(a_value_that_is_told_is_cut_between_two_characters),
        cmocka_unit_test(a_choice_names_its_usual_value_in_the_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

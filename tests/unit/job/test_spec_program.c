/* The key `program` of a job spec. */
#include "tests/unit/job/parsed.h"

static const char example[] =
    "{\"program\": {\"command\": [\"/usr/bin/python3\", \"train.py\"], "
    "\"args\": [\"--lr\", \"0.1\"],"
    "\"env\": {\"DATA\": \"/data\"}}, \"workers\": 2, \"epochs\": 3}";

static struct parsed *parse_with(const char *patch)
{
    return parse_patched(example, patch);
}

static void refused(const char *patch, const char *pointer, const char *part)
{
    refused_with(parse_with(patch), patch, pointer, part);
}

static void a_program_takes_the_place_of_model_data_and_global_batch(void **state)
{
    struct parsed *p = parse_with("{}");
    assert_int_equal(p->rc, 0);
    const struct program_spec *g = &p->spec.program;
    assert_true(g->given && p->spec.network.n_layers == 0);
    assert_int_equal(json_array_size(g->command), 2);
    assert_string_equal(json_string_value(json_array_get(g->args, 1)), "0.1");
    assert_string_equal(json_string_value(json_object_get(g->env, "DATA")), "/data");
    assert_true(g->patience_seconds == 120 && p->spec.batching.global_batch == 0);
    struct parsed *again = parse_json(p->spec.json);
    assert_int_equal(again->rc, 0);
    assert_true(json_equal(p->spec.json, again->spec.json));
    done(again);
    done(p);
}

static void what_a_program_brings_itself_is_refused_with_its_place(void **state)
{
    refused("{\"model\": \"mlp\"}", "/model", "brings its own");
    refused("{\"optimizer\": {\"type\": \"sgd\"}}", "/optimizer", "brings its own");
    refused("{\"precision\": \"bf16\"}", "/precision", "bf16");
    refused("{\"program\": {}}", "/program", "'name', a 'digest' or a 'command'");
    refused("{\"program\": {\"command\": \"train.py\"}}", "/program/command", "array");
    refused("{\"program\": {\"command\": [\"a\"], \"args\": [1]}}", "/program/args/0", "texts");
    refused("{\"program\": {\"command\": [\"a\"], \"args\": [\"b\", null]}}", "/program/args/1",
            "texts");
    refused("{\"program\": {\"command\": []}}", "/program/command", "there is none");
    refused("{\"program\": {\"command\": [\"a\"], \"env\": {\"EVENSTEP_SOCKET\": \"x\"}}}",
            "/program/env", "EVENSTEP_SOCKET");
    refused("{\"program\": {\"name\": \"a\", \"digest\": \"b\"}}", "/program/digest", "exclude");
    refused("{\"program\": {\"command\": [\"\", \"a\"]}}", "/program/command",
            "the program to start");
    refused("{\"program\": {\"comand\": [\"a\"]}}", "/program/comand", "command");
}

static void minibatches_are_counted_before_the_program_has_told_its_batch(void **state)
{
    refused("{\"batching\": {\"policy\": \"static\", \"weights\": [3, 2, 1]}}", "/batching/weights",
            "'weights' must be 2 numbers that are not all 0; these are 3");
    refused("{\"batching\": {\"policy\": \"static\", \"sizes\": [3, 2, 1]}}", "/batching/sizes",
            "'sizes' must be 2 numbers; these are 3");
    refused("{\"batching\": {\"policy\": \"static\"}}", "/batching", "needs 'sizes' or 'weights'");
    struct parsed *p = parse_with("{\"batching\": {\"policy\": \"static\", \"sizes\": [3, 1]}}");
    assert_int_equal(p->rc, 0);
    done(p);
}

static void only_ddp_makes_programs_meet(void **state)
{
    static const struct {
        const char *patch;
        bool meet;
    } cases[] = {
        {"{}", false},
        {"{\"program\": {\"command\": [\"python3\", \"-m\", \"evenstep.ddp\", \"a.py\"]}}", true},
        {"{\"program\": {\"command\": [\"python3\", \"-m\", \"evenstep.ddp2\"]}}", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct parsed *p = parse_with(cases[i].patch);
        assert_int_equal(p->rc, 0);
        assert_int_equal(jobspec_programs_meet(&p->spec), cases[i].meet);
        done(p);
    }
}

static void the_schema_asks_for_no_key_of_a_program(void **state)
{
    json_t *schemas = jobspec_schemas(), *program = json_object_get(schemas, "ProgramSpec");
    (void)state;
    assert_non_null(json_object_get(json_object_get(program, "properties"), "args"));
    assert_int_equal(json_array_size(json_object_get(program, "required")), 0);
    json_decref(schemas);
}

static void a_word_in_place_of_a_number_is_auto_or_refused(void **state)
{
    static const char local[] = "{\"strategy\": {\"type\": \"hpsgd\", \"k\": \"often\"}}";
    (void)state;
    refused(local, "/strategy/k", "must be a whole number or \"auto\", not \"often\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_takes_the_place_of_model_data_and_global_batch),
        cmocka_unit_test(what_a_program_brings_itself_is_refused_with_its_place),
        cmocka_unit_test(minibatches_are_counted_before_the_program_has_told_its_batch),
        cmocka_unit_test(only_ddp_makes_programs_meet),
        cmocka_unit_test(the_schema_asks_for_no_key_of_a_program),
        cmocka_unit_test(a_word_in_place_of_a_number_is_auto_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

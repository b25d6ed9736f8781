/* Manifests of programs: a mistake is reported with its place, and the contents are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/node/program_manifest.h"

static json_t *parsed(const char *text)
{
    struct err e = {0};
    json_t *j = jsonx_parse(text, strlen(text), &e);
    if (!j) {
        fail_msg("%s", e.message);
    }
    return j;
}

static void refused(const char *text, const char *pointer, const char *part)
{
    struct jsonx_problems problems = {0};
    json_t *given = parsed(text), *read = program_manifest_read(given, "/m", &problems);
    if (problems.count != 1 || strcmp(problems.items[0].pointer, pointer) != 0 ||
        !strstr(problems.items[0].message, part)) {
        fail_msg("%s: %d problems, the first: %s %s", text, problems.count,
                 problems.count ? problems.items[0].pointer : "",
                 problems.count ? problems.items[0].message : "none");
    }
    jsonx_problems_release(&problems);
    json_decref(read);
    json_decref(given);
}

static json_t *accepted(const char *text)
{
    struct jsonx_problems problems = {0};
    json_t *given = parsed(text), *read = program_manifest_read(given, "/m", &problems);
    if (problems.count > 0) {
        fail_msg("%s: %s %s", text, problems.items[0].pointer, problems.items[0].message);
    }
    json_decref(given);
    return read;
}

static void what_is_wrong_in_a_manifest_is_said_with_its_place(void **state)
{
    (void)state;
    refused("{\"comand\": [\"a\"]}", "/m/comand", "did you mean 'command'");
    refused("{\"command\": []}", "/m/command", "is empty");
    refused("{\"command\": \"a\"}", "/m/command", "array");
    refused("{\"arguments\": []}", "/m/arguments", "object of types");
    refused("{\"arguments\": {\"--lr\": \"float\"}}", "/m/arguments",
            "the type of '--lr' must be number, integer, text or flag");
    refused("{\"device\": \"gpu\"}", "/m/device", "is not a kind of device");
    refused("{\"needs\": [\"torch\"]}", "/m/needs", "object of at most 64 versions");
    refused("{\"needs\": {\"left-pad\": \"\"}}", "/m/needs", "'left-pad'");
    refused("{\"needs\": {\"torch\": \">=2\"}}", "/m/needs", "least version of 'torch'");
    refused("{\"needs\": {\"torch\": 2}}", "/m/needs", "least version of 'torch'");
}

static void what_a_manifest_says_is_found(void **state)
{
    json_t *m = accepted(
        "{\"description\": \"digits\", \"command\": [\"python3\", \"a.py\"], \"device\": \"cpu\","
        " \"env\": {\"A\": \"1\"}, \"needs\": {\"python3\": \"3.9\", \"torch\": \"\"}}");
    (void)state;
    assert_string_equal(json_string_value(json_array_get(program_manifest_command(m), 1)), "a.py");
    assert_string_equal(program_manifest_device(m), "cpu");
    assert_int_equal(json_object_size(program_manifest_needs(m)), 2);
    assert_null(program_manifest_interpreter(m));
    json_t *told = json_object();
    program_manifest_tell(told, m);
    assert_int_equal(json_object_size(told), 4); /* its environment is secret */
    assert_null(json_object_get(told, "env"));
    json_decref(told);
    json_decref(m);
    assert_null(program_manifest_command(NULL));
    assert_null(program_manifest_needs(NULL));
    assert_null(program_manifest_device(NULL));
}

static void a_python_of_the_command_is_a_need(void **state)
{
    static const struct {
        const char *manifest, *command, *interpreter;
        size_t needs;
    } cases[] = {
        {"{}", "[\"python3\", \"a.py\"]", NULL, 1},
        {"{\"needs\": {\"numpy\": \"\", \"torch\": \"2\"}}", "[\"python3\"]", NULL, 2},
        {"{}", "[\"/srv/venv/bin/python3.12\", \"a.py\"]", "/srv/venv/bin/python3.12", 0},
        {"{}", "[\"./train\"]", NULL, 0},
        {"{}", "[\"/opt/python3/bin/train\"]", NULL, 0},
        {"{}", "[]", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *m = accepted(cases[i].manifest), *command = parsed(cases[i].command);
        program_manifest_command_needs(m, command);
        const char *interpreter = program_manifest_interpreter(m);
        assert_int_equal(json_object_size(program_manifest_needs(m)), cases[i].needs);
        assert_int_equal(interpreter != NULL, cases[i].interpreter != NULL);
        if (interpreter) {
            assert_string_equal(interpreter, cases[i].interpreter);
        }
        json_decref(command);
        json_decref(m);
    }
}

static void what_the_job_gives_goes_before_what_the_manifest_gives(void **state)
{
    json_t *m = accepted("{\"command\": [\"a\"], \"env\": {\"A\": \"1\", \"B\": \"2\"}}"),
           *bare = parsed("{}"), *full = parsed("{\"command\": [\"b\"], \"env\": {\"B\": \"3\"}}"),
           *expected = parsed("{\"command\": [\"b\"], \"env\": {\"A\": \"1\", \"B\": \"3\"}}");
    (void)state;
    program_manifest_fill_in(bare, m);
    assert_true(json_equal(bare, m));
    program_manifest_fill_in(full, m);
    assert_true(json_equal(full, expected));
    json_decref(m);
    json_decref(bare);
    json_decref(full);
    json_decref(expected);
}

static void arguments_are_those_of_the_manifest_with_values_of_their_types(void **state)
{
    static const struct {
        const char *args, *pointer, *part;
    } cases[] = {
        {"[\"--lr\", \"0.1\", \"--fast\", \"--n\", \"3\", \"--name\", \"x\"]", NULL, NULL},
        {"[\"--rate\", \"1\"]", "/program/args/0", "'p' offers no argument '--rate'"},
        {"[\"--lr\", \"fast\"]", "/program/args/1", "'--lr' needs a value of the type number"},
        {"[\"--fast\", \"--n\", \"3.5\"]", "/program/args/2", "of the type integer"},
        {"[\"--n\"]", "/program/args/1", "of the type integer"},
        {"[\"--name\", \"--fast\"]", "/program/args/1", "of the type text"},
    };
    json_t *m = accepted(
        "{\"arguments\": {\"--lr\": \"number\", \"--n\": \"integer\","
        " \"--name\": \"text\", \"--fast\": \"flag\"}}");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct jsonx_problems problems = {0};
        json_t *args = parsed(cases[i].args);
        program_manifest_arguments(m, args, "p", &problems);
        assert_int_equal(problems.count, cases[i].pointer ? 1 : 0);
        if (cases[i].pointer) {
            assert_string_equal(problems.items[0].pointer, cases[i].pointer);
            assert_non_null(strstr(problems.items[0].message, cases[i].part));
        }
        jsonx_problems_release(&problems);
        json_decref(args);
    }
    json_decref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_in_a_manifest_is_said_with_its_place),
        cmocka_unit_test(what_a_manifest_says_is_found),
        cmocka_unit_test(a_python_of_the_command_is_a_need),
        cmocka_unit_test(what_the_job_gives_goes_before_what_the_manifest_gives),
        cmocka_unit_test(arguments_are_those_of_the_manifest_with_values_of_their_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

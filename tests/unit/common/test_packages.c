/* Packages of a host: versions compared by their numbers, and interpreters that report their
 * packages to a thread. A shell script replaces an interpreter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/machine/interpreters.h"
#include "common/machine/packages.h"
#include "common/process/proc.h"

static struct err err_;

static void versions_are_compared_by_number(void **state)
{
    assert_true(packages_at_least("2.1.0", "2.1"));
    assert_true(packages_at_least("2.10", "2.9"));
    assert_true(packages_at_least("3", ""));
    assert_true(packages_at_least("", "9")); /* not known */
    assert_true(packages_at_least("2", "2.0.0"));
    assert_false(packages_at_least("1.13.1", "2"));
    assert_false(packages_at_least("2.1.9", "2.2"));
}

/* The result of packages_find if python3 is this script; NULL: there is none. */
static json_t *found_with(const char *script)
{
    char folder[] = "/tmp/evenstep-test-XXXXXX", path[64], search[200];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/python3", folder);
    if (script) {
        assert_int_equal(proc_write_file(path, script, strlen(script), 0700, &err_), 0);
    }
    snprintf(search, sizeof search, "%s", folder);
    json_t *j = packages_find(&(struct packages_ask){.path = search}, &err_);
    proc_remove_tree(folder, NULL);
    return j;
}

static void a_host_tells_what_its_python_has(void **state)
{
    json_t *j = found_with("#!/bin/sh\necho '{\"python3\": \"3.11.2\", \"torch\": \"2.1.0\"}'\n");
    assert_string_equal(json_string_value(json_object_get(j, "torch")), "2.1.0");
    json_decref(j);
    j = found_with(NULL);
    assert_int_equal(json_object_size(j), 0);
    assert_true(json_is_object(j));
    json_decref(j);
    j = found_with("#!/bin/sh\nshift 2\necho \"{\\\"asked\\\": \\\"$*\\\"}\"\n");
    assert_string_equal(json_string_value(json_object_get(j, "asked")),
                        "numpy torch tensorflow keras jax");
    json_decref(j);
    assert_null(found_with("#!/bin/sh\necho it is broken\nexit 1\n"));
    assert_non_null(strstr(err_.message, "it is broken"));
}

static void the_real_one_answers(void **state)
{
    json_t *j = packages_find(&(struct packages_ask){.path = "/usr/bin:/bin"}, &err_);
    const char *version = json_string_value(json_object_get(j, "python3")), *name;
    json_t *value;
    assert_true(!version || packages_at_least(version, "3"));
    json_object_foreach(j, name, value) {
        assert_true(packages_known(name));
        assert_true(json_is_string(value));
    }
    json_decref(j);
}

/* ---- interpreters, asked by a thread --------------------------------------------------------- */

static const struct opt table[] = {INTERPRETERS_OPTION, {0}};

/* A new interpreter that runs this script: a folder in out[], to be removed. */
static struct opt_values *given(const char *script, char folder[64])
{
    char path[80], option[100];
    char *argv[] = {option, NULL};
    snprintf(folder, 64, "/tmp/evenstep-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/python", folder);
    assert_int_equal(proc_write_file(path, script, strlen(script), 0700, &err_), 0);
    snprintf(option, sizeof option, "--python=%s", path);
    struct opt_values *o = opt_parse(table, 1, argv, &err_);
    assert_non_null(o);
    return o;
}

/* What is reported once `ready` is true. */
static json_t *told(struct interpreters *i, bool (*ready)(const json_t *all))
{
    for (double until = clock_now() + 60; clock_now() < until; clock_sleep(0.01)) {
        json_t *all = interpreters_tell(i);
        if (all && ready(all)) {
            return all;
        }
        json_decref(all);
    }
    fail_msg("the interpreters did not tell within a minute");
    return NULL;
}

static bool any(const json_t *all)
{
    return json_array_size(all) == 1;
}

static bool is_broken(const json_t *all)
{
    return json_object_get(json_array_get(all, 0), "broken") != NULL;
}

static void what_cannot_be_imported_is_not_there_and_says_why(void **state)
{
    char folder[64];
    struct opt_values *o = given(
        "#!/bin/sh\n"
        "case \"$2\" in *find_spec*) echo '{\"python3\": \"3.12.1\", \"numpy\": \"2.1\", "
        "\"torch\": \"2.5\"}' ;;\n"
        "*) [ \"$3\" = torch ] || exit 0; printf %s \"ImportError('libcudart')\" >&2; exit 1 ;;\n"
        "esac\n",
        folder);
    assert_int_equal(interpreters_check(o, &err_), 0);
    struct interpreters *i = interpreters_start(o, NULL, &err_);
    json_t *all = told(i, is_broken), *one = json_array_get(all, 0),
           *packages = json_object_get(one, "packages");
    assert_string_equal(json_string_value(json_object_get(packages, "numpy")), "2.1");
    assert_null(json_object_get(packages, "torch"));
    assert_string_equal(json_string_value(json_object_get(json_object_get(one, "broken"), "torch")),
                        "ImportError('libcudart')");
    json_decref(all);
    interpreters_stop(i);
    proc_remove_tree(folder, NULL);
    opt_free(o);
}

static void one_that_hangs_holds_nobody_up(void **state)
{
    char folder[64];
    struct opt_values *o = given("#!/bin/sh\nexec sleep 1000\n", folder);
    struct interpreters *i = interpreters_start(o, NULL, &err_);
    assert_null(interpreters_tell(i)); /* it is still being asked */
    interpreters_stop(i);              /* and ends with us */
    proc_remove_tree(folder, NULL);
    opt_free(o);
}

static void without_the_option_python3_is_asked(void **state)
{
    struct opt_values *o = opt_parse(table, 0, NULL, &err_);
    struct interpreters *i = interpreters_start(o, "/nowhere", &err_);
    json_t *all = told(i, any), *one = json_array_get(all, 0);
    assert_string_equal(json_string_value(json_object_get(one, "path")), "python3");
    json_decref(all);
    interpreters_stop(i);
    opt_free(o);
}

static void a_path_that_cannot_be_run_is_refused(void **state)
{
    char none[] = "--python=/nowhere/python", relative[] = "--python=venv/bin/python";
    char *argv[] = {none, NULL}, *other[] = {relative, NULL};
    struct opt_values *o = opt_parse(table, 1, argv, &err_);
    assert_true(interpreters_check(o, &err_) < 0);
    assert_non_null(strstr(err_.message, "'/nowhere/python'"));
    opt_free(o);
    o = opt_parse(table, 1, other, &err_);
    assert_true(interpreters_check(o, &err_) < 0);
    assert_non_null(strstr(err_.message, "must begin with /"));
    opt_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_compared_by_number),
        cmocka_unit_test(a_host_tells_what_its_python_has),
        cmocka_unit_test(the_real_one_answers),
        cmocka_unit_test(what_cannot_be_imported_is_not_there_and_says_why),
        cmocka_unit_test(one_that_hangs_holds_nobody_up),
        cmocka_unit_test(without_the_option_python3_is_asked),
        cmocka_unit_test(a_path_that_cannot_be_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

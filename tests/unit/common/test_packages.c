/* Packages of a host: versions compared by their numbers, and a python3 that tells what it has. A
 * shell script stands in for python3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/packages.h"
#include "common/proc.h"

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

/* What packages_find says where python3 is this script; NULL: there is none. */
static json_t *found_with(const char *script)
{
    char folder[] = "/tmp/evenstep-test-XXXXXX", path[64], search[200];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/python3", folder);
    if (script) {
        assert_int_equal(proc_write_file(path, script, strlen(script), 0700, &err_), 0);
    }
    snprintf(search, sizeof search, "%s", folder);
    json_t *j = packages_find(search, &err_);
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
    assert_null(found_with("#!/bin/sh\necho it is broken\nexit 1\n"));
    assert_non_null(strstr(err_.message, "it is broken"));
}

static void the_real_one_answers(void **state)
{
    json_t *j = packages_find("/usr/bin:/bin", &err_);
    const char *version = json_string_value(json_object_get(j, "python3")), *name;
    json_t *value;
    assert_true(!version || packages_at_least(version, "3"));
    json_object_foreach(j, name, value) {
        assert_true(packages_known(name));
        assert_true(json_is_string(value));
    }
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_compared_by_number),
        cmocka_unit_test(a_host_tells_what_its_python_has),
        cmocka_unit_test(the_real_one_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

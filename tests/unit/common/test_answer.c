/* Programs that are run for their answer (common/process/answer.c): their output, messages and exit
 * code, whichever of these is missing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/answer.h"
#include "common/process/proc.h"

static char dir[64];
static struct answer a;
static struct err e;

static int open_folder(void **state)
{
    (void)state;
    e = (struct err){0};
    return answer_folder(dir, &e);
}

static int close_folder(void **state)
{
    (void)state;
    answer_release(&a);
    return proc_remove_tree(dir, NULL);
}

static int ask(const char *script, double seconds)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct answer_question q = {.argv = argv, .seconds = seconds};
    return answer_get(&a, &q, dir, &e);
}

static void test_a_document_what_is_said_and_the_code_are_told(void **state)
{
    (void)state;
    assert_int_equal(ask("echo '{\"answer\": 42}'; echo why >&2; exit 3", INFINITY), 0);
    assert_int_equal(json_integer_value(json_object_get(a.document, "answer")), 42);
    assert_string_equal(a.said, "why\n");
    assert_int_equal(a.code, 3);
}

static void test_why_there_is_no_document_is_told(void **state)
{
    (void)state;
    assert_int_equal(ask("echo no document", INFINITY), 0);
    assert_null(a.document);
    assert_int_equal(a.unread.code, ERR_SYNTAX);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.said, "");
}

static void test_an_output_of_any_size_does_not_hold_it(void **state)
{
    (void)state;
    assert_int_equal(ask("head -c 300000 /dev/zero | tr '\\0' e >&2;"
                         "echo '{\"d\": \"'$(head -c 300000 /dev/zero | tr '\\0' d)'\"}'",
                         INFINITY),
                     0);
    assert_int_equal(json_string_length(json_object_get(a.document, "d")), 300000);
    assert_int_equal(strlen(a.said), 300000);
}

static void test_one_that_is_too_slow_is_ended(void **state)
{
    (void)state;
    assert_int_equal(ask("echo $$ >&2; exec sleep 600", 0.2), 0);
    assert_true(a.code < 0);
    pid_t pid = (pid_t)strtol(a.said ? a.said : "", NULL, 10);
    assert_true(pid == 0 || (kill(pid, 0) < 0 && errno == ESRCH)); /* 0: it had not begun */
}

static void test_a_program_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    const char *const argv[] = {"/nowhere/evenstep-worker", NULL};
    const struct answer_question q = {.argv = argv, .seconds = INFINITY};
    assert_true(answer_get(&a, &q, dir, &e) < 0);
    assert_non_null(strstr(e.message, "/nowhere/evenstep-worker"));
    assert_null(a.document);
}

static void test_memory_is_limited(void **state)
{
    (void)state;
    const char *const argv[] = {"python3", "-c", "bytearray(1 << 30)", NULL};
    const struct answer_question q = {
        .argv = argv, .seconds = INFINITY, .memory_bytes = (int64_t)256 << 20};
    assert_int_equal(answer_get(&a, &q, dir, &e), 0);
    assert_true(a.code > 0);
    assert_non_null(strstr(a.said, "MemoryError"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_document_what_is_said_and_the_code_are_told,
                                        open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_why_there_is_no_document_is_told, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(test_an_output_of_any_size_does_not_hold_it, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(test_one_that_is_too_slow_is_ended, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(test_a_program_that_is_not_there_is_an_error, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(test_memory_is_limited, open_folder, close_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

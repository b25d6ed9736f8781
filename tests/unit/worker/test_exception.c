/* Finds the Python exception that ended a program in the traceback that it printed. */
#include "tests/unit/worker/fixture.h"

#include "worker/program/child/exception.h"

/* What is reported after these lines, which newlines separate. */
static const char *told(const char *lines)
{
    static char out[600];
    char all[900];
    char *rest = all;
    struct exception x = {0};
    snprintf(all, sizeof(all), "%s", lines);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        exception_read(&x, line);
    }
    struct program_end end = {.there = true};
    exception_note(&x, &end);
    return program_end_said(&end, out, sizeof(out));
}

#define TRACEBACK "Traceback (most recent call last):\n"
#define OWN "  File \"/tmp/a/train.py\", line 8, in <module>\n    go()\n"
#define LIBRARY "  File \"/usr/lib/python3/dist-packages/torch/nn.py\", line 2, in go\n    x[1]\n"

static void an_exception_is_told_with_the_innermost_line_of_the_program(void **state)
{
    assert_string_equal(told("begins\n" TRACEBACK OWN LIBRARY "    ~^^^\nKeyError: 1"),
                        "KeyError: 1 (train.py, line 8)");
    assert_string_equal(told(TRACEBACK LIBRARY "KeyError: 1"), "KeyError: 1");
    assert_string_equal(told(TRACEBACK OWN
                             "  File \"/opt/share/evenstep/python/evenstep/__init__.py"
                             "\", line 51, in prepare\nevenstep.Error: no"),
                        "evenstep.Error: no (train.py, line 8)");
    assert_string_equal(told(TRACEBACK "KeyError: 1"), "KeyError: 1");
}

static void a_fault_is_told_with_the_line_of_its_own_thread(void **state)
{
    static const char head[] = "Fatal Python error: Segmentation fault",
                      modules[] = "Extension modules: numpy._core, torch._C (total: 2)\n.linear";
    char text[700];
    snprintf(text, sizeof(text),
             "begins\n%s\n\nThread 0x00007f (most recent call first):\n"
             "  File \"/tmp/a/loads.py\", line 3 in read\n\n"
             "Current thread 0x00007e (most recent call first):\n"
             "  File \"/usr/lib/python3/dist-packages/torch/nn.py\", line 2 in go\n"
             "  File \"/tmp/a/train.py\", line 8 in step\n"
             "  File \"/tmp/a/train.py\", line 20 in <module>\n\n%s",
             head, modules);
    assert_string_equal(told(text), "Fatal Python error: Segmentation fault (train.py, line 8)");
    snprintf(text, sizeof(text), "%s\n%s", head, modules);
    assert_string_equal(told(text), head);
}

static void the_last_of_two_exceptions_is_told(void **state)
{
    assert_string_equal(told(TRACEBACK OWN "KeyError: 1\nDuring handling of the above exception, "
                                           "another exception occurred:\n" TRACEBACK
                                           "  File \"/tmp/a/data.py\", line 3, in read\nOSError"),
                        "OSError (data.py, line 3)");
}

static void what_is_printed_after_an_exception_ended_the_program(void **state)
{
    assert_string_equal(told(TRACEBACK OWN "KeyError: 1\ntrying again\nno such file"), "");
    assert_string_equal(told("KeyError: 1"), "");
    assert_string_equal(told(TRACEBACK OWN), "");
}

static void an_exception_of_several_lines_is_told_with_what_it_announces(void **state)
{
    assert_string_equal(told(TRACEBACK OWN "RuntimeError: Error(s) in loading state_dict for Net:\n"
                                           "\tMissing key(s) in state_dict: \"b\".\n"
                                           "\tUnexpected key(s) in state_dict: \"c\"."),
                        "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in "
                        "state_dict: \"b\". (train.py, line 8)");
    assert_string_equal(told(TRACEBACK OWN "InvalidArgumentError: Graph execution error:\n"
                                           "Detected at node Cast\nlogits has 3 classes"),
                        "InvalidArgumentError: Graph execution error: Detected at node Cast "
                        "(train.py, line 8)");
    assert_string_equal(told(TRACEBACK OWN "ValueError: shapes differ\n  (3,) and (4,)"),
                        "ValueError: shapes differ (train.py, line 8)");
}

static void long_lines_are_cut(void **state)
{
    char lines[900], path[300], said[450];
    memset(path, 'p', sizeof(path));
    memset(said, 's', sizeof(said));
    snprintf(lines, sizeof(lines), TRACEBACK "  File \"%.299s\", line 7, in go\n%.449s", path,
             said);
    const struct exception x = {0};
    assert_int_equal(strlen(told(lines)),
                     sizeof(x.said) - 1 + sizeof(x.file) - 1 + strlen(" (, line 7)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exception_is_told_with_the_innermost_line_of_the_program),
        cmocka_unit_test(a_fault_is_told_with_the_line_of_its_own_thread),
        cmocka_unit_test(the_last_of_two_exceptions_is_told),
        cmocka_unit_test(what_is_printed_after_an_exception_ended_the_program),
        cmocka_unit_test(an_exception_of_several_lines_is_told_with_what_it_announces),
        cmocka_unit_test(long_lines_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

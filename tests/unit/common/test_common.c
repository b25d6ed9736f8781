/* The common room: errors, buffers, JSON, options, processes, random numbers, clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/json/jsonx.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/path.h"
#include "common/process/proc.h"
#include "common/rng.h"
#include "common/text/words.h"

static void an_error_keeps_code_message_and_cause(void **state)
{
    struct err e;
    assert_int_equal(err_set(&e, ERR_DATA, "file ends at byte %d of %d", 812, 1024), -ERR_DATA);
    assert_int_equal(err_prefix(&e, "cannot read dataset '%s'", "train-images"), -ERR_DATA);
    assert_string_equal(e.message,
                        "cannot read dataset 'train-images': file ends at byte 812 of 1024");
    err_set(&e, ERR_IO, "again: %s", e.message); /* its own message as an argument */
    assert_string_equal(e.message,
                        "again: cannot read dataset 'train-images': file ends at byte 812 of 1024");
    assert_string_equal(err_name(ERR_NOT_FOUND), "not_found");
    assert_int_equal(err_http_status(ERR_INVALID), 422);
    errno = ENOENT;
    err_errno(&e, ERR_IO, "cannot open '%s'", "x");
    assert_string_equal(e.message, "cannot open 'x': No such file or directory");
    assert_string_equal(e.hint, "");
    errno = ENOSPC;
    err_errno(&e, ERR_IO, "cannot write '%s'", "x");
    assert_string_equal(e.message, "cannot write 'x': No space left on device");
    assert_non_null(strstr(e.hint, "make room"));
    for (int i = 0; i < 10; i++) {
        err_prefix(&e, "%0100d", i); /* grows past the end: cut, never overflown */
    }
    assert_true(strlen(e.message) < sizeof e.message);
}

static void a_buffer_stops_at_its_cap(void **state)
{
    struct buf b;
    buf_init(&b, 10);
    buf_addf(&b, "%d-%s", 12, "abc");
    assert_string_equal(b.data, "12-abc");
    buf_adds(&b, "12345");
    assert_true(b.failed);
    assert_int_equal(b.len, 6);
    buf_reset(&b);
    buf_adds(&b, "0123456789");
    assert_false(b.failed);
    size_t n;
    char *text = buf_take(&b, &n);
    assert_int_equal(n, 10);
    assert_string_equal(text, "0123456789");
    free(text);
    buf_release(&b);
}

/* Formatted text is printed into the available room: tested at each edge of it, and beyond the
 * cap. */
static void formatted_text_is_whole_wherever_it_ends(void **state)
{
    char wanted[300];
    struct buf b;
    (void)state;
    for (int n = 0; n < 280; n++) {
        memset(wanted, 'x', (size_t)n);
        snprintf(wanted + n, sizeof wanted - (size_t)n, "%d;", n);
        buf_init(&b, (size_t)n + 2 + (n > 9) + (n > 99));
        for (int i = 0; i < n; i++) {
            buf_add(&b, "x", 1);
        }
        buf_addf(&b, "%d;", n);
        assert_false(b.failed);
        assert_string_equal(b.data, wanted);
        buf_addf(&b, "%d", 1); /* the cap is reached, the room may not be */
        assert_true(b.failed);
        assert_string_equal(b.data, wanted);
        buf_release(&b);
    }
}

static void malformed_json_is_refused_with_line_and_column(void **state)
{
    static const char *const bad[] = {"{",           "{\"a\":1,\"a\":2}", "[1,2",
                                      "{\"a\":1} x", "{'a':1}",           "\"\\ud800\""};
    struct err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(jsonx_parse(bad[i], strlen(bad[i]), &e));
        assert_int_equal(e.code, ERR_SYNTAX);
        assert_non_null(strstr(e.message, "line 1"));
    }
    assert_null(jsonx_parse(" \n", 2, &e)); /* as a pipe gives that nobody has written to */
    assert_int_equal(e.code, ERR_SYNTAX);
    assert_string_equal(e.message, "there is no JSON: the text is empty");
    assert_null(jsonx_parse("[1e999]", 7, &e)); /* well formed, but no number of ours */
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.message, "out of range at line 1"));
    char deep[300];
    memset(deep, '[', sizeof deep);
    assert_null(jsonx_parse(deep, sizeof deep, &e));
    assert_non_null(strstr(e.message, "nested deeper"));
    json_t *j = jsonx_parse("{\"a\": \"[[[[\"}", 13, &e);
    assert_non_null(j);
    json_decref(j);
}

static void numbers_print_as_people_write_them(void **state)
{
    json_t *j =
        json_pack("{s:f, s:f, s:f, s:i, s:s}", "a", 0.4, "b", 1.0, "c", 1e-9, "d", 3, "e", "q\"\n");
    size_t n;
    char *text = jsonx_dump(j, false, &n);
    assert_string_equal(text, "{\"a\":0.4,\"b\":1.0,\"c\":1e-09,\"d\":3,\"e\":\"q\\\"\\u000a\"}");
    json_t *back = jsonx_parse(text, n, NULL);
    assert_true(json_equal(j, back));
    json_decref(back);
    free(text);
    json_object_set_new(j, "a", json_real(1.0 / 3));
    text = jsonx_dump(j, true, &n);
    back = jsonx_parse(text, n, NULL);
    assert_true(json_equal(j, back));
    json_decref(back);
    free(text);
    json_decref(j);
}

static void pointers_escape_and_names_have_neighbours(void **state)
{
    char p[64];
    assert_string_equal(jsonx_join(p, sizeof p, "/a", "b/c~d"), "/a/b~1c~0d");
    assert_string_equal(jsonx_join_index(p, sizeof p, p, 3), "/a/b~1c~0d/3");
    static const char *const names[] = {"strategy", "batching", "workers"};
    assert_string_equal(jsonx_nearest("stratgey", names, 3), "strategy");
    assert_null(jsonx_nearest("zzz", names, 3));
    struct jsonx_problems problems = {0}, of_all = {0};
    char first[JSONX_FIRST];
    assert_string_equal(jsonx_problems_first(&problems, first), "");
    for (int i = 0; i < 150; i++) {
        jsonx_problem(&problems, "/x", "number %d", i);
    }
    assert_string_equal(jsonx_problems_first(&problems, first), "/x: number 0");
    jsonx_problem(&of_all, "", "must be an object");
    assert_string_equal(jsonx_problems_first(&of_all, first), "must be an object");
    jsonx_problems_release(&of_all);
    assert_int_equal(problems.count, 100);
    assert_int_equal(problems.dropped, 50);
    json_t *j = jsonx_problems_json(&problems);
    assert_int_equal(json_array_size(j), 100);
    json_decref(j);
    jsonx_problems_release(&problems);
}

static void text_that_is_no_utf_8_is_shown_and_what_was_cut_has_no_half_character(void **state)
{
    static const struct {
        const char *text, *kept;
    } cases[] = {
        {"", ""},
        {"Gr\xc3\xb6\xc3\x9f"
         "e",
         "Größe"},
        {"cut \xc3", "cut "},
        {"cut \xf0\x9f\x99", "cut "},
        {"caf\xe9.x: no file", "caf\\xe9.x: no file"},
        {"a\xff"
         "b",
         "a\\xffb"},
        {"\xff\xff\xff\xff", "\\xff\\xff\\xff\\xff"},
        {"\xc3", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *j = jsonx_text(cases[i].text);
        assert_string_equal(json_string_value(j), cases[i].kept);
        json_decref(j);
    }
}

static const struct opt table[] = {{"data-dir", "DIR", OPT_STRING, "here", 0, 0, "folder"},
                                   {"port", "N", OPT_INT, "80", 1, 65535, "port"},
                                   {"verbose", NULL, OPT_FLAG, NULL, 0, 0, "more"},
                                   {"local-node", "NODE", OPT_LIST, NULL, 0, 0, "a node"},
                                   {0}};

static void options_come_from_line_environment_and_file_in_that_order(void **state)
{
    char path[] = "/tmp/evenstep-opt-XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "# comment\nport = 1\ndata-dir = file\nlocal-node=a\nlocal-node=b\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    setenv("EVENSTEP_PORT", "2", 1);
    const char *argv[] = {"--config", path, "sub", "--local-node=c", "--verbose", "--", "--x"};
    struct err e;
    struct opt_values *v = opt_parse(table, 7, (char **)argv, &e);
    assert_non_null(v);
    assert_int_equal(opt_int(v, "port"), 2);
    assert_string_equal(opt_string(v, "data-dir"), "file");
    assert_int_equal(opt_count(v, "local-node"), 1);
    assert_string_equal(opt_item(v, "local-node", 0), "c");
    assert_true(opt_flag(v, "verbose"));
    assert_int_equal(opt_positionals(v), 2);
    assert_string_equal(opt_positional(v, 1), "--x");
    opt_free(v);
    unsetenv("EVENSTEP_PORT");
    unlink(path);
}

static void every_wrong_option_is_named_at_once(void **state)
{
    const char *argv[] = {"--prot", "1", "--port", "70000", "--data-dir"};
    struct err e;
    assert_null(opt_parse(table, 5, (char **)argv, &e));
    assert_non_null(strstr(e.message, "did you mean '--port'"));
    assert_non_null(strstr(e.message, "1 to 65535"));
    assert_non_null(strstr(e.message, "--data-dir needs a value"));
}

static void the_first_positional_is_no_value_of_an_option(void **state)
{
    static const struct {
        const char *argv[6];
        int argc, first;
    } cases[] = {{{"a.py", "--port", "2"}, 3, 0},
                 {{"--port", "2", "a.py", "--port"}, 4, 2},
                 {{"--port=2", "a.py"}, 2, 1},
                 {{"--verbose", "a.py"}, 2, 1},
                 {{"--config", "file", "a.py"}, 3, 2},
                 {{"--verbose", "--", "--a.py"}, 3, 2},
                 {{"--verbose"}, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(opt_first_positional(table, cases[i].argc, (char **)cases[i].argv),
                         cases[i].first);
    }
    const char *argv[] = {"--port", "80"};
    struct opt_values *v = opt_parse(table, 2, (char **)argv, NULL);
    assert_true(opt_given(v, "port"));
    assert_false(opt_given(v, "data-dir"));
    opt_free(v);
}

static void levels_of_the_log_have_names(void **state)
{
    struct err e;
    enum log_level level = LOG_DEBUG;
    assert_int_equal(log_level_of("warn", &level, &e), 0);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(log_level_of("loud", &level, &e), -ERR_INVALID);
    assert_non_null(strstr(e.message, "'loud': expected debug, info, warn or error"));
}

static void data_roots_are_absolute_where_they_are_there(void **state)
{
    char roots[64], short_of[8];
    setenv("EVENSTEP_DATA", "/tmp/../tmp::/nowhere/../at/all", 1);
    path_data_roots("/unused", roots, sizeof roots);
    assert_string_equal(roots, "/tmp:/nowhere/../at/all");
    path_data_roots("/unused", short_of, sizeof short_of);
    assert_string_equal(short_of, "/tmp");
    unsetenv("EVENSTEP_DATA");
    path_data_roots("/usr/../tmp", roots, sizeof roots);
    assert_string_equal(roots, "/tmp");
}

static void a_process_is_told_from_its_successor(void **state)
{
    const char *argv[] = {"sleep", "60", NULL};
    struct proc_spec spec = {.argv = argv};
    struct err e;
    pid_t pid = proc_start(&spec, &e);
    assert_true(pid > 0);
    uint64_t ticks = proc_start_ticks(pid);
    assert_true(proc_alive(pid, ticks));
    assert_false(proc_alive(pid, ticks + 1));
    proc_stop(pid, 5);
    assert_false(proc_alive(pid, ticks));
    argv[0] = "no-such-program-evenstep";
    assert_true(proc_start(&spec, &e) < 0);
    assert_non_null(strstr(e.message, "No such file"));
}

static void a_file_is_written_whole_or_not_at_all(void **state)
{
    char dir[] = "/tmp/evenstep-proc-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    struct err e;
    snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(proc_mkdirs(path, 0755, &e), 0);
    snprintf(path, sizeof path, "%s/a/b/file", dir);
    assert_int_equal(proc_write_file(path, "hello", 5, 0600, &e), 0);
    size_t n;
    char *text = proc_read_file(path, 100, &n, &e);
    assert_string_equal(text, "hello");
    free(text);
    assert_null(proc_read_file(path, 4, &n, &e));
    assert_int_equal(e.code, ERR_TOO_LARGE);
    assert_int_equal(proc_write_file("/proc/nowhere/x", "a", 1, 0600, &e), -ERR_IO);
    assert_non_null(strstr(e.message, "'/proc/nowhere/x"));
    assert_int_equal(proc_remove_tree(dir, &e), 0);
    assert_null(proc_read_file(path, 4, &n, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void random_numbers_are_functions_of_their_place(void **state)
{
    /* known answer of Philox 4x32-10 with counter and key zero (Random123, kat_vectors) */
    struct rng_block b = rng_philox(0, 0, 0);
    assert_int_equal(b.v[0], 0x6627e8d5);
    assert_int_equal(b.v[1], 0xe169c58d);
    assert_int_equal(b.v[2], 0xbc57ac4c);
    assert_int_equal(b.v[3], 0x9b00dbd8);
    double sum = 0, squares = 0;
    enum { N = 20000 };
    for (int i = 0; i < N; i++) {
        double x = rng_normal(1, 2, (uint64_t)i);
        sum += x;
        squares += x * x;
        assert_true(rng_below(1, 3, (uint64_t)i, 7) < 7);
    }
    assert_true(fabs(sum / N) < 0.03);
    assert_true(fabs(squares / N - 1) < 0.05);
    assert_true(rng_double(1, 2, 3) == rng_double(1, 2, 3));
}

static void times_print_in_utc_with_milliseconds(void **state)
{
    char out[32];
    assert_string_equal(clock_format(out, 1767323045678), "2026-01-02T03:04:05.678Z");
    char quoted[32];
    assert_string_equal(log_quote(quoted, sizeof quoted, "a\"b\tc\n"), "\"a\\\"b\\tc\\n\"");
}

static void a_line_of_the_log_has_nothing_that_a_terminal_obeys(void **state)
{
    char quoted[64];
    (void)state;
    log_quote(quoted, sizeof quoted, "\033[2J \302\2331m \342\200\256x \351 \303\251");
    assert_string_equal(quoted, "\"?[2J ??1m ???x ? \303\251\"");
    log_quote(quoted, 8, "\303\251\302\233"); /* cut within one */
    assert_string_equal(quoted, "\"\303\251?\"");
}

static void a_list_in_a_line_is_read_word_by_word(void **state)
{
    static const char *const expected[] = {"a", "", "lon"};
    const char *at = "a,,longer,";
    char word[4];
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(words_next(&at, word, sizeof word));
        assert_string_equal(word, expected[i]);
    }
    assert_false(words_next(&at, word, sizeof word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formatted_text_is_whole_wherever_it_ends),
        cmocka_unit_test(an_error_keeps_code_message_and_cause),
        cmocka_unit_test(a_buffer_stops_at_its_cap),
        cmocka_unit_test(a_list_in_a_line_is_read_word_by_word),
        cmocka_unit_test(text_that_is_no_utf_8_is_shown_and_what_was_cut_has_no_half_character),
        cmocka_unit_test(malformed_json_is_refused_with_line_and_column),
        cmocka_unit_test(numbers_print_as_people_write_them),
        cmocka_unit_test(pointers_escape_and_names_have_neighbours),
        cmocka_unit_test(options_come_from_line_environment_and_file_in_that_order),
        cmocka_unit_test(every_wrong_option_is_named_at_once),
        cmocka_unit_test(the_first_positional_is_no_value_of_an_option),
        cmocka_unit_test(levels_of_the_log_have_names),
        cmocka_unit_test(data_roots_are_absolute_where_they_are_there),
        cmocka_unit_test(a_process_is_told_from_its_successor),
        cmocka_unit_test(a_file_is_written_whole_or_not_at_all),
        cmocka_unit_test(random_numbers_are_functions_of_their_place),
        cmocka_unit_test(times_print_in_utc_with_milliseconds),
        cmocka_unit_test(a_line_of_the_log_has_nothing_that_a_terminal_obeys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

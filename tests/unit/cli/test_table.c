/* Tables and the widths of text (cli/table.c, cli/columns.c, cli/terminal.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cli/columns.h"
#include "cli/table.h"
#include "common/text/terminal.h"

/* ---- text ------------------------------------------------------------------------------------ */

static void columns_are_those_of_a_terminal(void **state)
{
    (void)state;
    assert_int_equal(text_columns(""), 0);
    assert_int_equal(text_columns("naïve …"), 7);
    assert_int_equal(text_columns("日本"), 4);
    assert_int_equal(text_columns("e\xcc\x81"), 1); /* an accent of its own */
    assert_int_equal(text_columns("a\xff"), 2);     /* no UTF-8 */
}

static void text_is_cut_between_characters(void **state)
{
    static const struct {
        const char *text, *cut;
        int columns;
    } cases[] = {{"abcdef", "abcdef", 6}, {"abcdef", "abcd…", 5}, {"日本語", "日…", 4},
                 {"日本語", "日…", 3},    {"äöü", "ä…", 2},       {"ab", "…", 1}};
    char out[40];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(text_cut(out, sizeof out, cases[i].text, cases[i].columns),
                            cases[i].cut);
    }
}

static void the_environment_says_how_wide_a_line_is(void **state)
{
    FILE *file = tmpfile();
    (void)state;
    unsetenv("COLUMNS");
    assert_int_equal(terminal_width(file), 0);
    setenv("COLUMNS", "72", 1);
    assert_int_equal(terminal_width(file), 72);
    setenv("COLUMNS", "3", 1);
    assert_int_equal(terminal_width(file), 20); /* there is always room for something */
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(terminal_width(file), 0);
    unsetenv("COLUMNS");
    fclose(file);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static char printed[4000];

static void print(const struct table *t, int width)
{
    FILE *file = tmpfile();
    table_print(t, " ", width, file);
    rewind(file);
    printed[fread(printed, 1, sizeof printed - 1, file)] = '\0';
    fclose(file);
}

static void fill(struct table *t)
{
    static const struct table_head heads[] = {
        {"id", TABLE_WHOLE}, {"name", TABLE_TEXT}, {"size", TABLE_RIGHT}, {"why", TABLE_TEXT}};
    static const char *const cells[] = {"0123456789", "a", "5",    "because it is so",
                                        "x",          "ü", "1024", ""};
    table_init(t, heads, 4);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        table_cell(t, cells[i]);
    }
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    struct table t;
    (void)state;
    fill(&t);
    print(&t, 0);
    assert_string_equal(printed,
                        " id          name  size  why\n"
                        " 0123456789  a        5  because it is so\n"
                        " x           ü     1024\n");
    table_release(&t);
}

static void the_widest_text_is_cut_until_the_line_fits(void **state)
{
    struct table t;
    (void)state;
    fill(&t);
    print(&t, 36);
    assert_string_equal(printed,
                        " id          name  size  why\n"
                        " 0123456789  a        5  because it…\n"
                        " x           ü     1024\n");
    table_release(&t);
}

static void no_line_is_wider_than_the_terminal_whatever_is_in_it(void **state)
{
    struct table t;
    (void)state;
    fill(&t);
    for (int width = 20; width < 50; width++) {
        char *rest = NULL;
        print(&t, width);
        for (char *line = strtok_r(printed, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
            assert_true(text_columns(line) <= width);
        }
    }
    table_release(&t);
}

static void what_does_not_fit_is_printed_in_parts_and_no_number_is_cut(void **state)
{
    static const struct table_head heads[] = {{"rank", TABLE_RIGHT},
                                              {"node", TABLE_TEXT},
                                              {"samples", TABLE_RIGHT},
                                              {"ms", TABLE_RIGHT},
                                              {"state", TABLE_TEXT}};
    static const char *const cells[] = {
        "0", "a-node-with-a-long-name", "151243", "1.25", "done", "10", "b", "7", "", ""};
    struct table t;
    (void)state;
    table_init(&t, heads, 5);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        table_cell(&t, cells[i]);
    }
    print(&t, 30);
    assert_string_equal(printed,
                        " rank  node            samples\n"
                        "    0  a-node-with-a…   151243\n"
                        "   10  b                     7\n"
                        " rank    ms  state\n"
                        "    0  1.25  done\n"
                        "   10\n");
    table_release(&t);
}

static void a_sentence_goes_on_from_a_word_on(void **state)
{
    static const struct {
        const char *first, *text, *shown;
        int width;
    } cases[] = {
        {"  ", "train loss 2.292, test loss 2.4",
         "  train loss\n    2.292,\n    test loss\n    2.4\n", 14},
        {"  ", "as it is", "  as it is\n", 10},
        {"  ", "as it is", "  as it is\n", 0},
        {"", "a_word_wider_than_the_line and more", "a_word_wider_than_the_line\n    and more\n",
         12},
        {"n  ", "", "n  \n", 12},
    };
    char out[200];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *file = tmpfile();
        text_fill(file, cases[i].width, cases[i].first, 4, cases[i].text);
        rewind(file);
        out[fread(out, 1, sizeof out - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(out, cases[i].shown);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void values_are_shown_in_their_units(void **state)
{
    static const struct {
        const char *json;
        enum column_kind kind;
        const char *shown;
    } cases[] = {
        {"0.9791", COLUMN_PERCENT, "97.91 %"},
        {"0.00001234", COLUMN_NUMBER, "1.234e-05"},
        {"0", COLUMN_NUMBER, "0"},
        {"1e32", COLUMN_NUMBER, "1e+32"},
        {"12345", COLUMN_NUMBER, "12345"},
        {"-1234567.8", COLUMN_NUMBER, "-1234568"},
        {"0.0125", COLUMN_MS, "12.5"},
        {"0.5", COLUMN_SECONDS, "0.5 s"},
        {"75", COLUMN_SECONDS, "1:15"},
        {"3675.9", COLUMN_SECONDS, "1:01:15"},
        {"1023", COLUMN_BYTES, "1023 B"},
        {"1572864", COLUMN_BYTES, "1.5 MiB"},
        {"\"2026-01-02T03:04:05.678Z\"", COLUMN_TIME, "2026-01-02 03:04:05"},
        {"true", COLUMN_FLAG, "yes"},
        {"false", COLUMN_FLAG, ""},
        {"null", COLUMN_COUNT, "-"},
        {"[28,28,1]", COLUMN_TEXT, "[28,28,1]"},
    };
    char out[COLUMN_BYTES_MOST];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *j =
            json_pack("{s:{s:o}}", "a", "b", json_loads(cases[i].json, JSON_DECODE_ANY, NULL));
        assert_string_equal(column_text(out, j, "a.b", cases[i].kind), cases[i].shown);
        assert_string_equal(column_text(out, j, "a.c", cases[i].kind),
                            cases[i].kind == COLUMN_FLAG ? "" : "-");
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_those_of_a_terminal),
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(the_environment_says_how_wide_a_line_is),
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(the_widest_text_is_cut_until_the_line_fits),
        cmocka_unit_test(no_line_is_wider_than_the_terminal_whatever_is_in_it),
        cmocka_unit_test(what_does_not_fit_is_printed_in_parts_and_no_number_is_cut),
        cmocka_unit_test(a_sentence_goes_on_from_a_word_on),
        cmocka_unit_test(values_are_shown_in_their_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

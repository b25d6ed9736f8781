/* Conditions on a job's document (job/filter.h), the scanner that finds their values
 * (common/json/jsontext.h), and tags and notes (job/tags.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "job/filter.h"
#include "job/tags.h"

/* ---- values in a text ------------------------------------------------------------------------ */

static struct jsontext of(const char *text)
{
    return jsontext_of(text, strlen(text));
}

/* The scanner accepts what Jansson accepts. */
static void exactly_what_is_json_is_taken(void **state)
{
    static const char *const texts[] = {"{}",
                                        " [1, -2.5e+3, \"\\u00e9\\n\", true, false, null] ",
                                        "{\"a\":{\"b\":[{}]}}",
                                        "0",
                                        "-0.5",
                                        "\"\"",
                                        "{\"a\":1,}",
                                        "[1,]",
                                        "{\"a\"}",
                                        "{a:1}",
                                        "01",
                                        "1.",
                                        ".5",
                                        "+1",
                                        "1e",
                                        "-",
                                        "\"\\x\"",
                                        "\"\\u12g4\"",
                                        "\"a",
                                        "[1 2]",
                                        "{\"a\":1 \"b\":2}",
                                        "tru",
                                        "nul",
                                        "",
                                        " ",
                                        "[",
                                        "{\"a\":",
                                        "1 1",
                                        "[]]",
                                        "\"\t\"",
                                        "{\"a\":1}x",
                                        "[[[[1]]]]",
                                        "{\"a\" : [ ] , \"b\" : { } }"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *parsed = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        if ((of(texts[i]).at != NULL) != (parsed != NULL)) {
            fail_msg("'%s' is %sJSON", texts[i], parsed ? "" : "not ");
        }
        json_decref(parsed);
    }
}

static void nesting_has_an_end(void **state)
{
    char text[400];
    (void)state;
    for (int depth = 60; depth < 70; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(of(text).at != NULL, depth <= 64);
    }
}

static void values_are_found_by_their_paths(void **state)
{
    static const char text[] = "{\"a\": {\"b\" : [1, {\"c\":2}], \"bc\":-1.5}, \"c\":\"x,}\\\"y\"}";
    static const char *const found[][2] = {
        {"a.b", "[1, {\"c\":2}]"}, {"a.bc", "-1.5"}, {"c", "\"x,}\\\"y\""}};
    double number = 0;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct jsontext v = jsontext_find(of(text), found[i][0]);
        assert_int_equal(v.len, strlen(found[i][1]));
        assert_memory_equal(v.at, found[i][1], v.len);
    }
    assert_int_equal(*jsontext_find(of("{\"a\": {\"b\": 1, \"b.c/d\": 2}}"), "a.b.c/d").at, '2');
    assert_null(jsontext_find(of(text), "a.b.c").at);
    assert_null(jsontext_find(of(text), "b").at);
    assert_null(jsontext_find(of(text), "c.a").at);
    assert_true(jsontext_number(jsontext_find(of(text), "a.bc"), &number) && number == -1.5);
    assert_false(jsontext_number(jsontext_find(of(text), "c"), &number));
    assert_false(jsontext_number(of("1e999"), &number));
}

static void text_is_quoted_as_json_has_it(void **state)
{
    static const char *const texts[] = {"", "plain", "a\"b\\c\n\x7f", "é", "\xff"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buf out;
        buf_init(&out, 100);
        jsontext_quote(&out, texts[i], strlen(texts[i]));
        json_t *back = json_loads(out.data, JSON_DECODE_ANY, NULL);
        assert_true(i == 4 ? json_is_null(back) : strcmp(json_string_value(back), texts[i]) == 0);
        json_decref(back);
        buf_release(&out);
    }
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool holds(const char *condition, const char *value)
{
    struct filter f;
    struct err e;
    if (filter_parse(&f, condition, &e) < 0) {
        fail_msg("%s", e.message);
    }
    struct filter_value v = filter_value_of(of(value));
    return condition_holds(&f.all[0], &v);
}

static void a_logged_metric_may_have_any_name_that_no_operator_ends(void **state)
{
    static const char *const names[] = {"bleu", "eval/Top-5 (%)", "\xce\xba.1", "a..b"},
                             *const others[] = {"logged.",    "logged.a=b", "logged.a,b",
                                                "logged.a\n", "Logged.a",   "loggeda/b"};
    char path[FILTER_PATH];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct filter f;
        struct err e;
        char text[200];
        snprintf(path, sizeof path, "logged.%s", names[i]);
        snprintf(text, sizeof text, "%s>=1", path);
        assert_true(filter_is_path(path));
        assert_int_equal(filter_parse(&f, text, &e), 0);
        assert_string_equal(f.all[0].path, path);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(filter_is_path(others[i]));
    }
}

static void numbers_are_compared_as_numbers_and_text_as_text(void **state)
{
    (void)state;
    assert_true(holds("a=0.1", "1e-1") && holds("a>=10", "10.0") && holds("a>9", "10"));
    assert_false(holds("a<9", "10") || holds("a!=10", "10.0") || holds("a<=9.5", "10"));
    assert_true(holds("a=x", "\"x\"") && holds("a>=2026-01", "\"2026-02\"") &&
                holds("a<b", "\"a\""));
    assert_true(holds("a=true", "true") && holds("a!=true", "false"));
    assert_true(holds("a=10", "\"10\"")); /* a text that looks like a number */
    assert_false(holds("a=x", "10") || holds("a>=x", "10"));
    assert_true(holds("a!=x", "10"));
}

static void what_is_missing_null_or_nested_fulfils_nothing(void **state)
{
    static const char *const signs[] = {"=", "!=", ">=", "<=", ">", "<"};
    static const char *const values[] = {"null", "{}", "[1]", ""};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < 4; k++) {
            char condition[16];
            snprintf(condition, sizeof condition, "a%s1", signs[i]);
            assert_false(holds(condition, values[k]));
        }
    }
}

static void what_is_no_condition_is_said(void **state)
{
    static const char *const bad[] = {"",    "a",    "a=",   "=1",    "a==", "a=1,",  ",a=1",
                                      "A=1", "a.=1", ".a=1", "a b=1", "a!1", "a..b=1"};
    char many[200] = "a=1", longest[400];
    struct filter f;
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (i != 4 && filter_parse(&f, bad[i], &e) != -ERR_INVALID) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_int_equal(filter_parse(&f, "a==", &e), 0); /* equal to "=" */
    for (int i = 1; i < FILTER_CONDITIONS; i++) {
        strncat(many, ",a=1", sizeof many - strlen(many) - 1);
    }
    assert_int_equal(filter_parse(&f, many, &e), 0);
    assert_int_equal(f.n, FILTER_CONDITIONS);
    strncat(many, ",a=1", sizeof many - strlen(many) - 1);
    assert_int_equal(filter_parse(&f, many, &e), -ERR_INVALID);
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 390, "=1", 3);
    assert_int_equal(filter_parse(&f, longest, &e), -ERR_INVALID);
    longest[1] = '=';
    longest[390] = '\0';
    assert_int_equal(filter_parse(&f, longest, &e), -ERR_INVALID);
}

/* ---- tags and notes -------------------------------------------------------------------------- */

static int problems_of(bool (*check)(const json_t *, const char *, struct jsonx_problems *),
                       const char *text)
{
    struct jsonx_problems problems = {0};
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    bool good = check(j, "/x", &problems);
    int n = problems.count;
    assert_int_equal(good, n == 0);
    json_decref(j);
    jsonx_problems_release(&problems);
    return n;
}

static void tags_are_words_of_a_few_characters(void **state)
{
    (void)state;
    assert_int_equal(problems_of(tags_check, "[]"), 0);
    assert_int_equal(problems_of(tags_check, "[\"a\",\"Run/2.b:c=d@e-f_g\",\"9\"]"), 0);
    assert_int_equal(problems_of(tags_check, "[\"\",\"-a\",\"a b\",\"a,b\",\"\\u00e9\",1]"), 6);
    assert_int_equal(problems_of(tags_check, "[\"a\",\"b\",\"a\"]"), 1);
    assert_int_equal(problems_of(tags_check, "\"a\""), 1);
    assert_int_equal(problems_of(tags_check, "[\"a1234567890123456789012345678901234567890\"]"), 1);
    assert_int_equal(problems_of(tags_check, "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"), 1);
}

static void a_note_is_text_in_lines(void **state)
{
    char text[5000] = "\"";
    (void)state;
    assert_int_equal(problems_of(note_check, "null"), 0);
    assert_int_equal(problems_of(note_check, "\"two\\nlines \\t \\u00e9\""), 0);
    assert_int_equal(problems_of(note_check, "\"\\u001b[31m\""), 1);
    assert_int_equal(problems_of(note_check, "\"\\u202e\""), 1);
    assert_int_equal(problems_of(note_check, "7"), 1);
    for (int i = 0; i < NOTE_CHARACTERS; i++) {
        strcat(text, "é");
    }
    size_t n = strlen(text);
    memcpy(text + n, "\"", 2);
    assert_int_equal(problems_of(note_check, text), 0);
    memcpy(text + n, "x\"", 3);
    assert_int_equal(problems_of(note_check, text), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_what_is_json_is_taken),
        cmocka_unit_test(nesting_has_an_end),
        cmocka_unit_test(values_are_found_by_their_paths),
        cmocka_unit_test(a_logged_metric_may_have_any_name_that_no_operator_ends),
        cmocka_unit_test(text_is_quoted_as_json_has_it),
        cmocka_unit_test(numbers_are_compared_as_numbers_and_text_as_text),
        cmocka_unit_test(what_is_missing_null_or_nested_fulfils_nothing),
        cmocka_unit_test(what_is_no_condition_is_said),
        cmocka_unit_test(tags_are_words_of_a_few_characters),
        cmocka_unit_test(a_note_is_text_in_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

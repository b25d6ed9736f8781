/* Unsafe characters (common/text/text.h): where they are found, and how they are shown. Lines of
 * logs (common/text/logline.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/logline.h"
#include "common/text/text.h"

static const struct {
    const char *text, *shown;
    size_t unsafe;
} cases[] = {
    {"", "", 0},
    {"plain", "plain", 5},
    {"Größe 模型 نموذج 🙂", "Größe 模型 نموذج 🙂", 30},
    {"a\tb", "a\\u0009b", 1},
    {"a\x7f", "a\\u007f", 1},
    {"red \xc2\x9b"
     "31m",
     "red \\u009b31m", 4},
    {"a\xc2\xa0z", "a\xc2\xa0z", 4}, /* a no-break space is plain */
    {"gnp.\xe2\x80\xae"
     "exe",
     "gnp.\\u202eexe", 4},
    {"\xe2\x80\xa7", "\xe2\x80\xa7", 3},
    {"\xe2\x80\xa8", "\\u2028", 0},
    {"\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069", 0},
    {"\xe2\x81\xaa", "\xe2\x81\xaa", 3},
    {"\xff\xfe", "\\xff\\xfe", 0},
    {"a\xc3", "a\\xc3", 1},                 /* cut short */
    {"\xc0\xaf", "\\xc0\\xaf", 0},          /* longer than need be */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", 0}, /* a surrogate */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 0},
};

static void the_first_unsafe_character_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_unsafe(cases[i].text, strlen(cases[i].text)), cases[i].unsafe);
    }
}

static void unsafe_characters_are_shown_as_their_numbers(void **state)
{
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(text_shown(out, sizeof out, cases[i].text), cases[i].shown);
    }
}

static void a_name_has_nothing_that_is_not_seen(void **state)
{
    static const struct {
        const char *name, *wrong;
    } names[] = {
        {"Größe 模型 نموذج 🙂", NULL},
        {"two  words", NULL},
        {"a\xe3\x80\x80z", NULL}, /* U+3000, as typed in Japanese */
        {"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", NULL},        /* Persian */
        {"\u2764\ufe0f\u200d\U0001f525 \U0001f469\u200d\U0001f4bb", NULL}, /* emoji */
        {"a\u200dz", "contains the invisible character U+200D at byte 1"},
        {"\u0645\u200c\u200c", "contains the invisible character U+200C at byte 5"},
        {"\u3000\ufe0f", "contains the invisible character U+FE0F at byte 3"},
        {"", "is empty"},
        {" \xc2\xa0\xe2\xa0\x80\xe3\x80\x80", "consists of blanks"},
        {"a\x1b[m", "contains a control character at byte 1"},
        {"gnp.\xe2\x80\xae"
         "exe",
         "contains a control character at byte 4"},
        {"a\xff", "contains a control character at byte 1"},
        {"a\xe2\x80\x8bz", "contains the invisible character U+200B at byte 1"},
        {"\xef\xbb\xbfrun", "contains the invisible character U+FEFF at byte 0"},
        {"ab\xe2\x80\x8f", "contains the invisible character U+200F at byte 2"},
        {"\xd8\x9c", "contains the invisible character U+061C at byte 0"},
        {"co\xc2\xadop", "contains the invisible character U+00AD at byte 2"},
        {"a\xe2\x81\xa0", "contains the invisible character U+2060 at byte 1"},
        {"\xe3\x85\xa4", "contains the invisible character U+3164 at byte 0"},
        {"a\ufff9b", "contains the invisible character U+FFF9 at byte 1"},
        {"a\ufffb", "contains the invisible character U+FFFB at byte 1"},
        {"\U00013430", "contains the invisible character U+13430 at byte 0"},
        {"a\uffff", "contains the invisible character U+FFFF at byte 1"},
        {"\u0600\u0661 \ufffc\ufffd", NULL}, /* signs that are seen */
        {"a\xf3\xa0\x81\x81", "contains the invisible character U+E0041 at byte 1"},
    };
    char wrong[TEXT_WRONG];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *told = text_name_wrong(wrong, names[i].name, strlen(names[i].name));
        if (names[i].wrong) {
            assert_non_null(told);
            assert_string_equal(told, names[i].wrong);
        } else {
            assert_null(told);
        }
    }
}

static void what_does_not_fit_is_cut_between_characters(void **state)
{
    char out[8];
    (void)state;
    assert_string_equal(text_shown(out, sizeof out, "abcdef\xc3\xb6"), "abcdef");
    assert_string_equal(text_shown(out, sizeof out, "ab\xc2\x9b"), "ab");
    assert_string_equal(text_shown(out, 1, "a"), "");
}

static void tabs_and_line_ends_are_printed(void **state)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    (void)state;
    text_print(out, "a\tb\nc\x1b[31m\xc2\x9b\r\n\xff");
    fclose(out);
    assert_string_equal(text, "a\tb\nc\\u001b[31m\\u009b\\u000d\n\\xff");
    free(text);
}

static void values_of_a_log_line_are_found_by_their_key(void **state)
{
    static const char line[] =
        "ts=1 level=info mod=program msg=\"a line=\\\"no\\\"\" line=\"x \\\\ y\\n\\tz\" end=";
    char out[40];
    (void)state;
    assert_true(logline_value(line, "mod", out, sizeof out));
    assert_string_equal(out, "program");
    assert_true(logline_value(line, "line", out, sizeof out));
    assert_string_equal(out, "x \\ y\n\tz");
    assert_true(logline_value(line, "end", out, sizeof out));
    assert_string_equal(out, "");
    assert_false(logline_value(line, "no", out, sizeof out));
    assert_true(logline_value(line, "line", out, 3));
    assert_string_equal(out, "x ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_unsafe_character_is_found),
        cmocka_unit_test(unsafe_characters_are_shown_as_their_numbers),
        cmocka_unit_test(a_name_has_nothing_that_is_not_seen),
        cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
        cmocka_unit_test(tabs_and_line_ends_are_printed),
        cmocka_unit_test(values_of_a_log_line_are_found_by_their_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

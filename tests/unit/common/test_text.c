/* Unsafe characters (common/text/text.h): where they are found, and how they are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_unsafe_character_is_found),
        cmocka_unit_test(unsafe_characters_are_shown_as_their_numbers),
        cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
        cmocka_unit_test(tabs_and_line_ends_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Manual pages: text that roff would take for a request or a command is escaped, and lines are
 * short enough for an editor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/roff.h"

/* Compares what was written with `want`. */
static char *page;
static size_t page_bytes;

static FILE *begin(void)
{
    FILE *out = open_memstream(&page, &page_bytes);
    assert_non_null(out);
    return out;
}

static void end(FILE *out, const char *want)
{
    fclose(out);
    assert_string_equal(page, want);
    free(page);
}

static void expect_text(const char *text, const char *want)
{
    FILE *out = begin();
    roff_text(text, out);
    end(out, want);
}

static void what_roff_reads_itself_is_spelled(void **state)
{
    (void)state;
    expect_text("", "");
    expect_text("--to FILE", "\\-\\-to FILE");
    expect_text("a \\ and a node's name", "a \\e and a node\\(aqs name");
    expect_text(".hidden is no request, nor is a.b", "\\&.hidden is no request, nor is a.b");
}

static void characters_of_several_bytes_are_numbers(void **state)
{
    (void)state;
    expect_text("\xc3\xa9", "\\[u00E9]");
    expect_text("a\xe2\x80\xa6z", "a\\[u2026]z");
    expect_text("\xf0\x9f\x98\x80 ok", "\\[u1F600] ok");
    expect_text("\xe2\x80", "\\[u0080]"); /* cut off: nothing behind it is read */
}

/* A line has 76 columns. A word that does not fit starts the next line, where a leading dot is no
 * request either. The escaped length of a word counts. */
static void a_line_ends_before_a_word_that_it_has_no_room_for(void **state)
{
    static const char word[] = "a-word-of-thirty-columns-in-all"; /* dashes take two each */
    char text[200], want[200];
    (void)state;
    snprintf(text, sizeof text, "%070d 12345", 0);
    expect_text(text, text);
    snprintf(text, sizeof text, "%070d .23456", 0);
    snprintf(want, sizeof want, "%070d\n\\&.23456", 0);
    expect_text(text, want);
    snprintf(text, sizeof text, "%040d %s", 0, word);
    snprintf(want, sizeof want, "%040d\na\\-word\\-of\\-thirty\\-columns\\-in\\-all", 0);
    expect_text(text, want);
}

static void sections_and_terms_are_macros(void **state)
{
    (void)state;
    FILE *out = begin();
    roff_section("NAME", NULL, out);
    roff_section("FILES", "in the folder", out);
    end(out, ".SH NAME\n.SH FILES\nin the folder\n");
    out = begin();
    roff_term("--to", "FILE", "where it goes", out);
    roff_term("--json", "", "prints JSON", out);
    end(out,
        ".TP\n\\fB\\-\\-to\\fR \\fIFILE\\fR\nwhere it goes\n"
        ".TP\n\\fB\\-\\-json\\fR\nprints JSON\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_roff_reads_itself_is_spelled),
        cmocka_unit_test(characters_of_several_bytes_are_numbers),
        cmocka_unit_test(a_line_ends_before_a_word_that_it_has_no_room_for),
        cmocka_unit_test(sections_and_terms_are_macros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

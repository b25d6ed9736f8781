/* See tags.h. */
#include "job/tags.h"

#include <ctype.h>
#include <string.h>

#include "common/text/text.h"

bool tag_valid(const char *tag)
{
    static const char taken[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        "._:/=@-";
    size_t n = strlen(tag);
    return n >= 1 && n <= TAG_CHARACTERS && strspn(tag, taken) == n &&
           isalnum((unsigned char)tag[0]);
}

static bool is_among(const json_t *tags, size_t n, const char *tag)
{
    for (size_t i = 0; i < n; i++) {
        const char *other = json_string_value(json_array_get(tags, i));
        if (other && strcmp(other, tag) == 0) {
            return true;
        }
    }
    return false;
}

bool tags_check(const json_t *tags, const char *pointer, struct jsonx_problems *problems)
{
    int before = problems->count + problems->dropped;
    char at[200];
    size_t i;
    json_t *one;
    if (!json_is_array(tags)) {
        jsonx_problem(problems, pointer, "expected an array of tags");
        return false;
    }
    if (json_array_size(tags) > TAGS_MOST) {
        jsonx_problem(problems, pointer, "%zu tags are more than %d", json_array_size(tags),
                      TAGS_MOST);
        return false;
    }
    json_array_foreach((json_t *)tags, i, one) {
        const char *tag = json_string_value(one);
        jsonx_join_index(at, sizeof at, pointer, i);
        if (!tag || !tag_valid(tag)) {
            jsonx_problem(problems, at,
                          "a tag has 1 to %d letters, digits and characters of ._:/=@-, and begins "
                          "with a letter or a digit",
                          TAG_CHARACTERS);
        } else if (is_among(tags, i, tag)) {
            jsonx_problem(problems, at, "the tag '%s' is given twice", tag);
        }
    }
    return problems->count + problems->dropped == before;
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

/* Is it text without control characters? Newlines and tabs are allowed. */
static bool is_plain(const char *text, size_t n)
{
    for (size_t at = 0; at < n; at++) {
        at += text_unsafe(text + at, n - at);
        if (at < n && text[at] != '\n' && text[at] != '\t') {
            return false;
        }
    }
    return true;
}

bool note_check(const json_t *note, const char *pointer, struct jsonx_problems *problems)
{
    const char *text = json_string_value(note);
    if (json_is_null(note)) {
        return true;
    }
    if (!text) {
        jsonx_problem(problems, pointer, "expected a text, or null");
    } else if (characters(text) > NOTE_CHARACTERS) {
        jsonx_problem(problems, pointer, "the note has %zu characters, more than %d",
                      characters(text), NOTE_CHARACTERS);
    } else if (!is_plain(text, json_string_length(note))) {
        jsonx_problem(problems, pointer, "the note has control characters");
    } else {
        return true;
    }
    return false;
}

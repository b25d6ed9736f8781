/* Scanning JSON; see jsontext.h. One function for each kind of value returns where it ends, or NULL
 * where it is malformed, so that a document is checked by walking it once.
 */
#include "common/json/jsontext.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, NUMBER_BYTES = 64 };

static const char *skip_value(const char *at, const char *end, int depth);

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) {
        at++;
    }
    return at;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The end of the escape whose backslash is at `at`. */
static const char *skip_escape(const char *at, const char *end)
{
    if (end - at < 2 || !at[1]) {
        return NULL;
    }
    if (at[1] != 'u') {
        return strchr("\"\\/bfnrt", at[1]) ? at + 2 : NULL;
    }
    bool good = end - at >= 6 && is_hex(at[2]) && is_hex(at[3]) && is_hex(at[4]) && is_hex(at[5]);
    return good ? at + 6 : NULL;
}

static const char *skip_string(const char *at, const char *end)
{
    for (at++; at && at < end && *at != '"';) {
        if ((unsigned char)*at < 0x20) {
            return NULL;
        }
        at = *at == '\\' ? skip_escape(at, end) : at + 1;
    }
    return at && at < end ? at + 1 : NULL;
}

/* The end of a run of digits; NULL: there is none. */
static const char *skip_digits(const char *at, const char *end)
{
    const char *first = at;
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at > first ? at : NULL;
}

static const char *skip_number(const char *at, const char *end)
{
    at += *at == '-';
    at = at < end && *at == '0' ? at + 1 : skip_digits(at, end);
    if (at && at < end && *at == '.') {
        at = skip_digits(at + 1, end);
    }
    if (at && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        at = skip_digits(at, end);
    }
    return at;
}

static const char *skip_word(const char *at, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - at) >= n && memcmp(at, word, n) == 0 ? at + n : NULL;
}

/* The end of the colon after a key; the key starts at `at`. */
static const char *skip_key(const char *at, const char *end)
{
    at = at < end && *at == '"' ? skip_string(at, end) : NULL;
    at = at ? skip_space(at, end) : NULL;
    return at && at < end && *at == ':' ? skip_space(at + 1, end) : NULL;
}

/* The end of an object or an array that starts at `at`. */
static const char *skip_nest(const char *at, const char *end, int depth)
{
    bool object = *at == '{';
    char close = object ? '}' : ']';
    at = skip_space(at + 1, end);
    if (at < end && *at == close) {
        return at + 1;
    }
    while (at) {
        at = object ? skip_key(at, end) : at;
        at = at ? skip_value(at, end, depth + 1) : NULL;
        at = at ? skip_space(at, end) : NULL;
        if (!at || at == end || (*at != ',' && *at != close)) {
            return NULL;
        }
        if (*at++ == close) {
            return at;
        }
        at = skip_space(at, end);
    }
    return NULL;
}

static const char *skip_value(const char *at, const char *end, int depth)
{
    if (at == end || depth > DEPTH) {
        return NULL;
    }
    switch (*at) {
    case '{':
    case '[':
        return skip_nest(at, end, depth);
    case '"':
        return skip_string(at, end);
    case 't':
        return skip_word(at, end, "true");
    case 'f':
        return skip_word(at, end, "false");
    case 'n':
        return skip_word(at, end, "null");
    default:
        return skip_number(at, end);
    }
}

/* ---- from outside ---------------------------------------------------------------------------- */

struct jsontext jsontext_of(const char *bytes, size_t len)
{
    const char *end = bytes + len, *first = bytes ? skip_space(bytes, end) : NULL;
    const char *last = first ? skip_value(first, end, 1) : NULL;
    if (!last || skip_space(last, end) != end) {
        return (struct jsontext){NULL, 0};
    }
    return (struct jsontext){first, (size_t)(last - first)};
}

bool jsontext_is_object(struct jsontext v)
{
    return v.at && *v.at == '{';
}

bool jsontext_is_array(struct jsontext v)
{
    return v.at && *v.at == '[';
}

struct jsontext_walk jsontext_members(struct jsontext object)
{
    if (!jsontext_is_object(object)) {
        return (struct jsontext_walk){NULL, NULL};
    }
    return (struct jsontext_walk){object.at + 1, object.at + object.len - 1};
}

bool jsontext_next(struct jsontext_walk *walk, struct jsontext *key, struct jsontext *value)
{
    const char *at = walk->at ? skip_space(walk->at, walk->end) : walk->end;
    if (at == walk->end) {
        return false;
    }
    const char *behind = skip_string(at, walk->end), *begin = skip_key(at, walk->end),
               *last = begin ? skip_value(begin, walk->end, 1) : NULL;
    if (!behind || !last) { /* not well-formed, which jsontext_of() would have reported */
        return false;
    }
    *key = (struct jsontext){at + 1, (size_t)(behind - at - 2)};
    *value = (struct jsontext){begin, (size_t)(last - begin)};
    at = skip_space(last, walk->end);
    walk->at = at < walk->end ? at + 1 : at; /* a comma */
    return true;
}

struct jsontext jsontext_find(struct jsontext object, const char *path)
{
    for (;;) {
        size_t n = strcspn(path, ".");
        struct jsontext key, value, found = {NULL, 0};
        struct jsontext_walk walk = jsontext_members(object);
        while (jsontext_next(&walk, &key, &value)) {
            if (key.len == strlen(path) && memcmp(key.at, path, key.len) == 0) {
                return value; /* the key may have dots itself */
            }
            found = !found.at && key.len == n && memcmp(key.at, path, n) == 0 ? value : found;
        }
        if (!found.at) {
            return found;
        }
        object = found;
        path += n + 1;
    }
}

bool jsontext_number(struct jsontext v, double *out)
{
    char text[NUMBER_BYTES];
    if (!v.at || v.len >= sizeof text || !(*v.at == '-' || (*v.at >= '0' && *v.at <= '9'))) {
        return false;
    }
    memcpy(text, v.at, v.len);
    text[v.len] = '\0';
    *out = strtod(text, NULL);
    return isfinite(*out);
}

void jsontext_quote(struct buf *out, const char *text, size_t len)
{
    json_t *checked = json_stringn(text, len);
    size_t done = 0;
    if (!checked) {
        buf_adds(out, "null");
        return;
    }
    json_decref(checked);
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != 0x7f && c != '"' && c != '\\') {
            continue;
        }
        buf_add(out, text + done, i - done);
        if (c == '"' || c == '\\') {
            buf_addf(out, "\\%c", c);
        } else {
            buf_addf(out, "\\u%04x", c);
        }
        done = i + 1;
    }
    buf_add(out, text + done, len - done);
    buf_add(out, "\"", 1);
}

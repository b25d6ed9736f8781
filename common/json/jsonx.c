/* JSON beyond Jansson: see jsonx.h. */
#include "common/json/jsonx.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/text/text.h"
#include "common/process/proc.h"

enum { MAX_PROBLEMS = 100, MAX_DEPTH = 64, DIGITS = 15 };

void jsonx_problems_release(struct jsonx_problems *p)
{
    free(p->items);
    memset(p, 0, sizeof *p);
}

void jsonx_problem(struct jsonx_problems *p, const char *pointer, const char *fmt, ...)
{
    if (p->count >= MAX_PROBLEMS) {
        p->dropped++;
        return;
    }
    if (!p->items) {
        p->items = calloc(MAX_PROBLEMS, sizeof *p->items);
        BUG_ON(!p->items);
    }
    struct jsonx_problem *item = &p->items[p->count++];
    snprintf(item->pointer, sizeof item->pointer, "%s", pointer);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(item->message, sizeof item->message, fmt, ap);
    va_end(ap);
}

/* The length of the text without an incomplete character at its end. */
static size_t whole_characters(const char *text)
{
    size_t n = strlen(text);
    for (size_t cut = 1; cut < 4 && cut <= n; cut++) {
        unsigned char byte = (unsigned char)text[n - cut];
        if (byte >= 0xc0) {
            return n - cut;
        }
        if (byte < 0x80) {
            break;
        }
    }
    return n;
}

json_t *jsonx_text(const char *text)
{
    enum { SHOWN = 6 }; /* most bytes of one shown byte, as in \u009b */
    json_t *s = json_string(text);
    s = s ? s : json_stringn(text, whole_characters(text));
    if (!s) {
        size_t room = SHOWN * strlen(text) + 1;
        char *shown = malloc(room);
        s = json_string(shown ? text_shown(shown, room, text) : "(text that is not UTF-8)");
        free(shown);
    }
    return s;
}

const char *jsonx_problems_first(const struct jsonx_problems *p, char out[JSONX_FIRST])
{
    const struct jsonx_problem *first = p->count > 0 ? p->items : &(struct jsonx_problem){0};
    snprintf(out, JSONX_FIRST, "%s%s%s", first->pointer, first->pointer[0] ? ": " : "",
             first->message);
    return out;
}

json_t *jsonx_problems_json(const struct jsonx_problems *p)
{
    json_t *out = json_array();
    for (int i = 0; i < p->count; i++) {
        json_array_append_new(out,
                              json_pack("{s:o, s:o}", "pointer", jsonx_text(p->items[i].pointer),
                                        "message", jsonx_text(p->items[i].message)));
    }
    return out;
}

/* Measures depth by scanning brackets outside strings: Jansson's own limit is far deeper than
 * ours. */
static bool too_deep(const char *text, size_t len, int *line)
{
    int depth = 0;
    bool quoted = false;
    *line = 1;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        *line += c == '\n';
        if (quoted) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                quoted = false;
            }
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH) {
                return true;
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

static bool is_blank(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && memchr(" \t\r\n", text[n], 4)) {
        n++;
    }
    return n == len;
}

json_t *jsonx_parse(const char *text, size_t len, struct err *e)
{
    int line;
    if (is_blank(text, len)) {
        err_set(e, ERR_SYNTAX, "there is no JSON: the text is empty");
        return NULL;
    }
    if (too_deep(text, len, &line)) {
        err_set(e, ERR_SYNTAX, "the JSON is nested deeper than %d levels at line %d", MAX_DEPTH,
                line);
        return NULL;
    }
    json_error_t je;
    json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    if (!j && (json_error_code(&je) == json_error_null_character ||
               json_error_code(&je) == json_error_null_byte_in_key)) {
        err_set(e, ERR_INVALID, "the JSON has a text with NUL (\\u0000) at line %d, column %d",
                je.line, je.column);
    } else if (!j && json_error_code(&je) == json_error_numeric_overflow) {
        err_set(e, ERR_INVALID,
                "the JSON has a number that is out of range at line %d, column %d: %s", je.line,
                je.column, je.text);
    } else if (!j) {
        err_set(e, ERR_SYNTAX, "the JSON is malformed at line %d, column %d: %s", je.line,
                je.column, je.text);
    }
    return j;
}

json_t *jsonx_load(const char *path, size_t max_bytes, struct err *e)
{
    size_t n;
    char *text = proc_read_file(path, max_bytes, &n, e);
    if (!text) {
        return NULL;
    }
    json_t *j = jsonx_parse(text, n, e);
    if (!j) {
        err_prefix(e, "cannot read '%s'", path);
    }
    free(text);
    return j;
}

static void newline(struct buf *b, bool indent, int depth)
{
    if (indent) {
        buf_addf(b, "\n%*s", depth * 2, "");
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
}

static void dump_string(struct buf *b, const char *s, size_t n)
{
    const char *end = s + n;
    buf_add(b, "\"", 1);
    while (s < end) {
        const char *plain = s;
        while (s < end && is_plain((unsigned char)*s)) {
            s++;
        }
        buf_add(b, plain, (size_t)(s - plain));
        if (s < end) {
            unsigned char c = (unsigned char)*s++;
            buf_addf(b, c == '"' || c == '\\' ? "\\%c" : "\\u%04x", c);
        }
    }
    buf_add(b, "\"", 1);
}

const char *jsonx_real(char out[JSONX_REAL], double v)
{
    for (int digits = DIGITS; digits <= 17; digits++) {
        snprintf(out, JSONX_REAL, "%.*g", digits, v);
        if (strtod(out, NULL) == v) {
            break;
        }
    }
    return out;
}

/* JSON has no NaN. */
static void dump_real(struct buf *b, double v)
{
    char text[JSONX_REAL];
    if (!isfinite(v)) {
        buf_adds(b, "null");
        return;
    }
    buf_adds(b, jsonx_real(text, v));
    if (!strpbrk(text, ".eE")) {
        buf_adds(b, ".0");
    }
}

static void dump(struct buf *b, const json_t *j, bool indent, int depth)
{
    const char *key;
    json_t *value;
    size_t i;
    bool first = true;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        buf_add(b, "{", 1);
        json_object_foreach((json_t *)j, key, value) {
            if (!first) {
                buf_adds(b, ",");
            }
            first = false;
            newline(b, indent, depth + 1);
            dump_string(b, key, strlen(key));
            buf_adds(b, indent ? ": " : ":");
            dump(b, value, indent, depth + 1);
        }
        if (!first) {
            newline(b, indent, depth);
        }
        buf_add(b, "}", 1);
        break;
    case JSON_ARRAY:
        buf_add(b, "[", 1);
        json_array_foreach((json_t *)j, i, value) {
            if (i) {
                buf_add(b, ",", 1);
            }
            newline(b, indent, depth + 1);
            dump(b, value, indent, depth + 1);
        }
        if (json_array_size(j)) {
            newline(b, indent, depth);
        }
        buf_add(b, "]", 1);
        break;
    case JSON_STRING:
        dump_string(b, json_string_value(j), json_string_length(j));
        break;
    case JSON_INTEGER:
        buf_addf(b, "%lld", (long long)json_integer_value(j));
        break;
    case JSON_REAL:
        dump_real(b, json_real_value(j));
        break;
    case JSON_TRUE:
        buf_adds(b, "true");
        break;
    case JSON_FALSE:
        buf_adds(b, "false");
        break;
    case JSON_NULL:
        buf_adds(b, "null");
        break;
    }
}

char *jsonx_dump(const json_t *j, bool indent, size_t *len)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 30);
    dump(&b, j, indent, 0);
    return buf_take(&b, len);
}

const char *jsonx_string_at(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

char *jsonx_join(char *out, size_t out_bytes, const char *pointer, const char *key)
{
    size_t n = 0;
    char text[512];
    for (; *pointer && n < sizeof text - 3; pointer++) {
        text[n++] = *pointer;
    }
    text[n++] = '/';
    for (; *key && n < sizeof text - 3; key++) {
        if (*key == '~' || *key == '/') {
            text[n++] = '~';
            text[n++] = *key == '~' ? '0' : '1';
        } else {
            text[n++] = *key;
        }
    }
    text[n] = 0;
    snprintf(out, out_bytes, "%s", text);
    return out;
}

char *jsonx_join_index(char *out, size_t out_bytes, const char *pointer, size_t index)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", index);
    return jsonx_join(out, out_bytes, pointer, key);
}

static int edit_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    size_t na = strlen(a), nb = strlen(b);
    if (na >= MAX || nb >= MAX) {
        return MAX;
    }
    int row[MAX + 1];
    for (size_t j = 0; j <= nb; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            int best = diagonal + !same;
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[nb];
}

const char *jsonx_nearest(const char *name, const char *const *names, int n)
{
    const char *best = NULL;
    int least = 1 + (int)strlen(name) / 3;
    for (int i = 0; i < n; i++) {
        int d = edit_distance(name, names[i]);
        if (d <= least && (!best || d < least)) {
            best = names[i];
            least = d;
        }
    }
    return best;
}

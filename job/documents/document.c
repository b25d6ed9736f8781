/* See document.h. */
#include "job/documents/document.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/text/buf.h"

enum { MOST_ATTEMPT = 1 << 30, MOST_RANK = 65535, PROBLEM_BYTES = 300 };

bool sender_is(const struct sender *from, const struct sender *ours)
{
    return from->attempt == ours->attempt && strcmp(from->job, ours->job) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

json_t *document_new(int format, const struct sender *from)
{
    json_t *rank = from->rank == COORDINATOR ? json_null() : json_integer(from->rank);
    return json_pack("{s:i, s:s, s:i, s:o}", "format", format, "job", from->job, "attempt",
                     from->attempt, "rank", rank);
}

json_t *document_real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* ---- reading --------------------------------------------------------------------------------- */

void document_problem(const struct document *d, const char *key, const char *fmt, ...)
{
    char pointer[200], message[PROBLEM_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (key) {
        jsonx_join(pointer, sizeof pointer, d->pointer, key);
    } else {
        snprintf(pointer, sizeof pointer, "%s", d->pointer);
    }
    jsonx_problem(d->problems, pointer, "%s", message);
}

/* The value of a key that must be there; NULL: it is missing, and this was reported. */
static const json_t *need(const struct document *d, const char *key)
{
    const json_t *v = d->j ? json_object_get(d->j, key) : NULL;
    if (d->j && !v) {
        document_problem(d, key, "is missing");
    }
    return v;
}

static void read_sender(const struct document *d, struct sender *from)
{
    document_text(d, "job", from->job, sizeof from->job);
    from->attempt = (int)document_integer(d, "attempt", 0, MOST_ATTEMPT);
    from->rank = d->j && json_is_null(json_object_get(d->j, "rank"))
                     ? COORDINATOR
                     : (int)document_integer(d, "rank", 0, MOST_RANK);
}

struct document document_plain(const json_t *j, struct jsonx_problems *problems)
{
    struct document d = {.j = json_is_object(j) ? j : NULL, .problems = problems};
    if (!d.j) {
        document_problem(&d, NULL, "must be an object");
    }
    return d;
}

struct document document_open(const json_t *j, int format, struct sender *from,
                              struct jsonx_problems *problems)
{
    struct document d = document_plain(j, problems);
    const json_t *told = json_object_get(j, "format");
    if (d.j && !json_is_integer(told)) {
        document_problem(&d, "format", "is missing: another version of this program wrote it");
        d.j = NULL;
    } else if (d.j && json_integer_value(told) != format) {
        document_problem(&d, "format", "is %lld, and this version of the program reads %d",
                         (long long)json_integer_value(told), format);
        d.j = NULL;
    }
    if (from) {
        *from = (struct sender){.rank = COORDINATOR};
        read_sender(&d, from);
    }
    return d;
}

int document_close(struct document *d, const char *name, struct err *e)
{
    struct jsonx_problems *p = d->problems;
    struct buf text;
    int n = p->count, rc = 0;
    buf_init(&text, (size_t)64 * PROBLEM_BYTES);
    for (int i = 0; i < n; i++) {
        const struct jsonx_problem *one = &p->items[i];
        buf_addf(&text, "%s%s%s%s", i ? "; " : "", one->pointer, one->pointer[0] ? ": " : "",
                 one->message);
    }
    if (n > 0) {
        rc = err_set(e, ERR_DATA, "%s is not valid: %.400s", name, text.data ? text.data : "");
    }
    buf_release(&text);
    jsonx_problems_release(p);
    return rc;
}

struct document document_within(const struct document *d, const char *key)
{
    const json_t *v = need(d, key);
    struct document in = {.j = json_is_object(v) ? v : NULL, .problems = d->problems};
    jsonx_join(in.pointer, sizeof in.pointer, d->pointer, key);
    if (v && !in.j) {
        document_problem(d, key, "must be an object");
    }
    return in;
}

struct document document_element(const struct document *d, const char *key, size_t index)
{
    char list[96];
    const json_t *v = d->j ? json_array_get(json_object_get(d->j, key), index) : NULL;
    struct document in = {.j = json_is_object(v) ? v : NULL, .problems = d->problems};
    jsonx_join(list, sizeof list, d->pointer, key);
    jsonx_join_index(in.pointer, sizeof in.pointer, list, index);
    if (d->j && !in.j) {
        document_problem(&in, NULL, "must be an object");
    }
    return in;
}

bool document_has(const struct document *d, const char *key)
{
    const json_t *v = d->j ? json_object_get(d->j, key) : NULL;
    return v && !json_is_null(v);
}

void document_text(const struct document *d, const char *key, char *out, size_t bytes)
{
    const json_t *v = need(d, key);
    const char *text = json_string_value(v);
    out[0] = 0;
    if (v && (!text || !text[0] || strlen(text) >= bytes)) {
        document_problem(d, key, "must be a text of 1 to %zu bytes", bytes - 1);
    } else if (text) {
        snprintf(out, bytes, "%s", text);
    }
}

void document_sentence(const struct document *d, const char *key, char *out, size_t bytes)
{
    const json_t *v = need(d, key);
    const char *text = json_string_value(v);
    snprintf(out, bytes, "%s", text ? text : "");
    if (v && !text) {
        document_problem(d, key, "must be a text");
    }
}

int64_t document_integer(const struct document *d, const char *key, int64_t least, int64_t most)
{
    const json_t *v = need(d, key);
    int64_t n = json_integer_value(v);
    if (v && (!json_is_integer(v) || n < least || n > most)) {
        document_problem(d, key, "must be a whole number, %lld to %lld", (long long)least,
                         (long long)most);
    }
    return v && json_is_integer(v) && n >= least && n <= most ? n : least > 0 ? least : 0;
}

double document_number(const struct document *d, const char *key, double least, double most)
{
    const json_t *v = need(d, key);
    double x = json_number_value(v);
    bool good = json_is_number(v) && x >= least && x <= most;
    if (v && !good) {
        document_problem(d, key, "must be a number, %g to %g", least, most);
    }
    return good ? x : least > 0 ? least : 0;
}

double document_maybe(const struct document *d, const char *key)
{
    const json_t *v = need(d, key);
    if (v && !json_is_number(v) && !json_is_null(v)) {
        document_problem(d, key, "must be a number or null");
    }
    return json_is_number(v) ? json_number_value(v) : NAN;
}

bool document_flag(const struct document *d, const char *key)
{
    const json_t *v = need(d, key);
    if (v && !json_is_boolean(v)) {
        document_problem(d, key, "must be true or false");
    }
    return json_is_true(v);
}

const json_t *document_list(const struct document *d, const char *key, size_t least, size_t most)
{
    const json_t *v = need(d, key);
    size_t n = json_array_size(v);
    bool good = json_is_array(v) && n >= least && n <= most;
    if (v && !good) {
        document_problem(d, key, "must be an array of %zu to %zu elements", least, most);
    }
    return good ? v : NULL;
}

int document_integers(const struct document *d, const char *key, int *out, int least, int most)
{
    const json_t *list = document_list(d, key, 0, (size_t)most);
    int n = (int)json_array_size(list);
    for (int i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        int64_t x = json_integer_value(v);
        out[i] = x >= least && x <= INT32_MAX ? (int)x : 0;
        if (!json_is_integer(v) || x < least || x > INT32_MAX) {
            document_problem(d, key, "must hold whole numbers of %d and more", least);
            return n;
        }
    }
    return n;
}

int document_choice(const struct document *d, const char *key, const char *const *names, int n)
{
    const json_t *v = need(d, key);
    const char *text = json_string_value(v);
    for (int i = 0; text && i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    if (text) {
        document_problem(d, key, "'%.40s' is unknown", text);
    } else if (v) {
        document_problem(d, key, "must be a text");
    }
    return -1;
}

json_t *document_object(const struct document *d, const char *key, bool needed)
{
    const json_t *v = needed || document_has(d, key) ? need(d, key) : NULL;
    if (v && !json_is_object(v)) {
        document_problem(d, key, "must be an object");
        return NULL;
    }
    return json_incref((json_t *)v);
}

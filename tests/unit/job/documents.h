/* Shared by the tests of documents between processes (job/documents): a document is written, sent
 * as text, and read again; a document with one mistake is read and reported. */
#ifndef TESTS_JOB_DOCUMENTS_H
#define TESTS_JOB_DOCUMENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/documents/document.h"

static const struct sender from_coordinator = {"0123456789abcdef", 2, COORDINATOR};
static const struct sender from_rank = {"0123456789abcdef", 2, 1};

/* The document as it arrives: written as text and parsed. Takes the reference. */
static inline json_t *sent(json_t *j)
{
    struct err e = {0};
    size_t n = 0;
    assert_non_null(j);
    char *text = jsonx_dump(j, false, &n);
    json_t *out = jsonx_parse(text, n, &e);
    if (!out) {
        fail_msg("%s", e.message);
    }
    free(text);
    json_decref(j);
    return out;
}

static inline void assert_read(int rc, const struct err *e)
{
    if (rc < 0) {
        fail_msg("%s", e->message);
    }
}

/* Compares both and releases them. */
static inline void assert_same(json_t *a, json_t *b)
{
    char *left = json_dumps(a, JSON_SORT_KEYS), *right = json_dumps(b, JSON_SORT_KEYS);
    assert_string_equal(left, right);
    free(left);
    free(right);
    json_decref(a);
    json_decref(b);
}

static inline void assert_sender(const struct sender *from, const struct sender *expected)
{
    assert_true(sender_is(from, expected));
    assert_int_equal(from->rank, expected->rank);
}

/* One mistake: where it is ("workers/0/node"), its value (JSON with single quotes; NULL: missing),
 * and the reader's message. */
struct wrong {
    const char *where, *value, *says;
};

static inline json_t *value_of(const char *single)
{
    char text[300];
    struct err e = {0};
    snprintf(text, sizeof text, "[%s]", single);
    for (char *c = text; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    json_t *list = jsonx_parse(text, strlen(text), &e), *value;
    if (!list) {
        fail_msg("%s: %s", single, e.message);
    }
    value = json_incref(json_array_get(list, 0));
    json_decref(list);
    return value;
}

static inline void spoil(json_t *j, const struct wrong *w)
{
    char path[100], *part = path, *slash;
    snprintf(path, sizeof path, "%s", w->where);
    for (; (slash = strchr(part, '/')); part = slash + 1) {
        *slash = 0;
        j = json_is_array(j) ? json_array_get(j, (size_t)strtol(part, NULL, 10))
                             : json_object_get(j, part);
        assert_non_null(j);
    }
    if (json_is_array(j)) {
        json_array_set_new(j, (size_t)strtol(part, NULL, 10), value_of(w->value));
    } else if (w->value) {
        json_object_set_new(j, part, value_of(w->value));
    } else {
        assert_int_equal(json_object_del(j, part), 0);
    }
}

/* `read` reads a document and releases what it has read. Takes the reference of `good`. */
static inline void each_says(json_t *good, const struct wrong *wrongs, size_t n,
                             int (*read)(const json_t *j, struct err *e))
{
    struct err e = {0};
    assert_read(read(good, &e), &e);
    for (size_t i = 0; i < n; i++) {
        json_t *bad = json_deep_copy(good);
        spoil(bad, &wrongs[i]);
        err_clear(&e);
        int rc = read(bad, &e);
        json_decref(bad);
        if (rc != -ERR_DATA || strcmp(e.message, wrongs[i].says) != 0) {
            fail_msg("%s = %s: %d '%s' instead of '%s'", wrongs[i].where,
                     wrongs[i].value ? wrongs[i].value : "nothing", rc, e.message, wrongs[i].says);
        }
    }
    json_decref(good);
}

#define EACH_SAYS(good, wrongs, read) \
    each_says(good, wrongs, sizeof(wrongs) / sizeof(wrongs)[0], read)

#endif

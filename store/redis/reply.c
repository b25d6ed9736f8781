/* Reading replies, and making keys: the type of every reply is checked before its value is used,
 * and the characters of every name before it becomes part of a key.
 */
#include "store/internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

/* ---- replies --------------------------------------------------------------------------------- */

static int unexpected(const redisReply *r, const char *wanted, struct err *e)
{
    return err_set(e, ERR_DATA, "the store answered with something else than %s (reply type %d)",
                   wanted, r ? r->type : 0);
}

int reply_int(const redisReply *r, int64_t *out, struct err *e)
{
    if (!r || r->type != REDIS_REPLY_INTEGER) {
        return unexpected(r, "a number", e);
    }
    *out = r->integer;
    return 0;
}

int reply_text(const redisReply *r, const char **out, size_t *len, struct err *e)
{
    if (r && r->type == REDIS_REPLY_NIL) {
        return REPLY_NIL;
    }
    if (!r || (r->type != REDIS_REPLY_STRING && r->type != REDIS_REPLY_STATUS)) {
        return unexpected(r, "a text", e);
    }
    *out = r->str;
    if (len) {
        *len = (size_t)r->len;
    }
    return REPLY_TEXT;
}

int reply_array(const redisReply *r, size_t at_least, struct err *e)
{
    if (r && r->type == REDIS_REPLY_NIL) {
        return 0;
    }
    if (!r || r->type != REDIS_REPLY_ARRAY || r->elements > INT_MAX ||
        (r->elements && r->elements < at_least)) {
        return unexpected(r, "a list", e);
    }
    return (int)r->elements;
}

int reply_record(const redisReply *r, size_t at_least, struct err *e)
{
    int n = reply_array(r, at_least, e);
    return n == 0 ? unexpected(r, "a list that is not empty", e) : n;
}

int reply_clock(const redisReply *r, double *ms, struct err *e)
{
    const char *text = NULL;
    int rc = reply_text(r, &text, NULL, e);
    if (rc == REPLY_NIL) {
        rc = unexpected(r, "its clock", e);
    }
    *ms = rc > 0 ? (double)strtoll(text, NULL, 10) : 0;
    return rc < 0 ? rc : 0;
}

bool reply_is_status(const redisReply *r, const char *text)
{
    return r && (r->type == REDIS_REPLY_STATUS || r->type == REDIS_REPLY_STRING) &&
           !strcmp(r->str, text);
}

json_t *reply_json(const redisReply *r, struct err *e)
{
    const char *text = NULL;
    size_t len = 0;
    if (reply_text(r, &text, &len, e) <= 0) {
        return NULL;
    }
    json_t *j = jsonx_parse(text, len, e);
    if (!j) {
        err_prefix(e, "the store holds a damaged document");
    }
    return j;
}

const char *reply_field(const redisReply *pairs, const char *name, size_t *len)
{
    if (!pairs || pairs->type != REDIS_REPLY_ARRAY) {
        return NULL;
    }
    for (size_t i = 0; i + 1 < pairs->elements; i += 2) {
        const redisReply *k = pairs->element[i], *v = pairs->element[i + 1];
        if (k->type == REDIS_REPLY_STRING && v->type == REDIS_REPLY_STRING &&
            !strcmp(k->str, name)) {
            if (len) {
                *len = (size_t)v->len;
            }
            return v->str;
        }
    }
    return NULL;
}

int store_done(redisReply *r, const struct err *e)
{
    if (!r) {
        return store_failed(e);
    }
    freeReplyObject(r);
    return 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

int reply_entry(const redisReply *list, int i, struct stream_entry *out, struct err *e)
{
    const redisReply *r = list->element[i];
    if (reply_array(r, 2, e) < 2 || reply_text(r->element[0], &out->id, NULL, e) <= 0 ||
        !store_stream_valid(out->id)) {
        return err_set(e, ERR_DATA, "the store answered with a malformed entry");
    }
    out->fields = r->element[1]->type == REDIS_REPLY_ARRAY ? r->element[1] : NULL;
    return 0;
}

json_t *reply_entries(const redisReply *list, int n, reply_entry_fn *make, char last[STORE_PLACE],
                      struct err *e)
{
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        struct stream_entry at;
        if (reply_entry(list, i, &at, e) < 0) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, make(&at));
        snprintf(last, STORE_PLACE, "%s", at.id);
    }
    return out;
}

int reply_stream(const redisReply *r, const char **key, const redisReply **list, struct err *e)
{
    if (reply_array(r, 2, e) < 2 || reply_text(r->element[0], key, NULL, e) <= 0) {
        return err_set(e, ERR_DATA, "the store answered with something else than a stream");
    }
    *list = r->element[1];
    return reply_array(*list, 0, e);
}

int reply_only_stream(const redisReply *r, const redisReply **list, struct err *e)
{
    const char *key;
    int n = reply_array(r, 1, e);
    return n <= 0 ? n : reply_stream(r->element[0], &key, list, e);
}

/* ---- keys and documents ---------------------------------------------------------------------- */

char *store_dump(const json_t *j, const char *what, struct err *e)
{
    size_t len = 0;
    char *text = j ? jsonx_dump(j, false, &len) : NULL;
    if (!text) {
        err_set(e, ERR_INTERNAL, "cannot store %s: it is not a JSON document", what);
        return NULL;
    }
    if (len > STORE_DOC_BYTES) {
        err_set(e, ERR_TOO_LARGE, "cannot store %s: it has %zu bytes, and %d are allowed", what,
                len, STORE_DOC_BYTES);
        free(text);
        return NULL;
    }
    return text;
}

int store_no_job(const char *id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no job '%.40s'", id ? id : "");
}

static bool stream_parts(const char *id, uint64_t part[2])
{
    for (int i = 0; i < 2; i++) {
        char *end = NULL;
        if (!isdigit((unsigned char)*id)) {
            return false;
        }
        errno = 0;
        part[i] = strtoull(id, &end, 10);
        if (errno || *end != (i ? '\0' : '-')) {
            return false;
        }
        id = end + 1;
    }
    return true;
}

bool store_stream_valid(const char *id)
{
    uint64_t part[2];
    return id && strlen(id) < 32 && stream_parts(id, part);
}

int store_stream_compare(const char *a, const char *b)
{
    uint64_t x[2], y[2];
    if (!stream_parts(a, x) || !stream_parts(b, y)) {
        return -2;
    }
    int i = x[0] == y[0];
    return x[i] < y[i] ? -1 : x[i] > y[i];
}

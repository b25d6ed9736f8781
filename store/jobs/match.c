/* See match.h. */
#include "store/jobs/match.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/text/words.h"

/* Copies the first key of a path. Returns its length. */
static size_t root_of(const char *path, char out[FILTER_PATH])
{
    size_t n = strcspn(path, ".");
    snprintf(out, FILTER_PATH, "%.*s", (int)n, path);
    return n;
}

static int field_of(const struct match *m, const char *name)
{
    for (int i = 0; i < m->n_fields; i++) {
        if (!strcmp(m->fields[i], name)) {
            return i;
        }
    }
    return -1;
}

static void add_field(struct match *m, const char *name)
{
    if (field_of(m, name) < 0) {
        snprintf(m->fields[m->n_fields++], FILTER_PATH, "%s", name);
    }
}

static void add_path(struct match *m, const char *path)
{
    char root[FILTER_PATH];
    root_of(path, root);
    if (jobview_kind(root) == JOBVIEW_LIVE) {
        m->live = true;
    } else {
        add_field(m, root);
    }
}

void match_init(struct match *m, const struct job_query *query, const char *sort)
{
    memset(m, 0, sizeof *m);
    m->query = query;
    m->sort = sort;
    if (query->q && query->q[0]) {
        add_field(m, "name");
    }
    if (query->tags && query->tags[0]) {
        add_field(m, "tags");
    }
    if (query->owner) {
        add_field(m, "owner");
    }
    for (int i = 0; query->where && i < query->where->n; i++) {
        add_path(m, query->where->all[i].path);
    }
    if (sort) {
        add_path(m, sort);
    }
}

/* ---- values of one job ----------------------------------------------------------------------- */

/* The replies about one job. */
struct read {
    const struct match *match;
    const redisReply *hash; /* values of match->fields; NULL: no field was asked for */
    struct jsontext live;   /* parsed once */
};

static const redisReply *field_reply(const struct read *r, const char *name)
{
    int i = field_of(r->match, name);
    const redisReply *value = i >= 0 ? r->hash->element[i] : NULL;
    return value && value->type == REDIS_REPLY_STRING ? value : NULL;
}

static struct filter_value text_value(const redisReply *r)
{
    struct filter_value v = {.kind = r && r->len ? VALUE_TEXT : VALUE_NONE};
    if (v.kind) {
        snprintf(v.text, sizeof v.text, "%s", r->str);
    }
    return v;
}

static struct filter_value value_at(const struct read *r, const char *path)
{
    char root[FILTER_PATH];
    size_t n = root_of(path, root);
    enum jobview_kind kind = jobview_kind(root);
    if (kind == JOBVIEW_LIVE) {
        return filter_value_of(jsontext_find(r->live, path));
    }
    const redisReply *reply = field_reply(r, root);
    if (kind == JOBVIEW_NUMBER) {
        return (struct filter_value){.kind = VALUE_NUMBER,
                                     .number = reply ? strtod(reply->str, NULL) : 0};
    }
    if (kind == JOBVIEW_TEXT) {
        return text_value(reply);
    }
    struct jsontext document = reply ? jsontext_of(reply->str, reply->len) : (struct jsontext){0};
    return filter_value_of(path[n] ? jsontext_find(document, path + n + 1) : document);
}

/* Does the array ["a","b"] have the tag? Tags have no character that JSON escapes. */
static bool has_tag(const redisReply *tags, const char *tag)
{
    char quoted[80];
    int len = snprintf(quoted, sizeof quoted, "\"%s\"", tag);
    return tags && memmem(tags->str, tags->len, quoted, (size_t)len);
}

static bool is_of(const struct read *r, const char *owner)
{
    const redisReply *its = owner ? field_reply(r, "owner") : NULL;
    return !owner || (its && !strcmp(its->str, owner));
}

static bool is_wanted(const struct read *r, const struct entry *at)
{
    const struct job_query *query = r->match->query;
    if (!is_of(r, query->owner)) {
        return false;
    }
    if (query->q && query->q[0]) {
        const redisReply *name = field_reply(r, "name");
        if (!(name && strcasestr(name->str, query->q)) &&
            strncmp(at->id, query->q, strlen(query->q)) != 0) {
            return false;
        }
    }
    char tag[64];
    for (const char *tags = query->tags; tags && words_next(&tags, tag, sizeof tag);) {
        if (!has_tag(field_reply(r, "tags"), tag)) {
            return false;
        }
    }
    for (int i = 0; query->where && i < query->where->n; i++) {
        const struct condition *c = &query->where->all[i];
        struct filter_value v = value_at(r, c->path);
        if (!condition_holds(c, &v)) {
            return false;
        }
    }
    return true;
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static int ask(struct store *s, const struct match *m, const struct entry *entries, int n,
               struct err *e)
{
    char key[STORE_KEY];
    const char *argv[2 + MATCH_FIELDS] = {"HMGET", key};
    int rc = 0;
    for (int i = 0; i < m->n_fields; i++) {
        argv[2 + i] = m->fields[i];
    }
    for (int i = 0; rc == 0 && i < n; i++) {
        if (m->n_fields && (rc = key_of_job(key, KEY_JOB, entries[i].id, e)) == 0) {
            rc = store_append_argv(s, 2 + m->n_fields, argv, e);
        }
        if (rc == 0 && m->live && (rc = key_of_job(key, KEY_JOB_LIVE, entries[i].id, e)) == 0) {
            rc = store_append(s, e, "GET %s", key);
        }
    }
    return rc;
}

/* Finds the replies about one job: its fields if any were asked for, then the live document. */
static struct read read_of(const struct match *m, redisReply *const *replies)
{
    struct read r = {.match = m, .hash = m->n_fields ? replies[0] : NULL};
    const redisReply *live = m->live ? replies[m->n_fields ? 1 : 0] : NULL;
    if (live && live->type == REDIS_REPLY_STRING) {
        r.live = jsontext_of(live->str, live->len);
    }
    return r;
}

static int keep(const struct match *m, redisReply *const *replies, int each, struct entry *entries,
                int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        struct read r = read_of(m, replies + (size_t)each * (size_t)i);
        bool whole = !r.hash ||
                     (r.hash->type == REDIS_REPLY_ARRAY && r.hash->elements == (size_t)m->n_fields);
        if (whole && is_wanted(&r, &entries[i])) {
            entries[kept] = entries[i];
            if (m->sort) {
                entries[kept].key = value_at(&r, m->sort);
            }
            kept++;
        }
    }
    return kept;
}

int match_keep(struct store *s, const struct match *m, struct entry *entries, int n, struct err *e)
{
    int each = (m->n_fields > 0) + m->live;
    if (!each || !n) {
        return n;
    }
    redisReply **replies = calloc((size_t)each * (size_t)n, sizeof *replies);
    if (!replies) {
        return err_set(e, ERR_MEMORY, "cannot list the jobs: memory ran out");
    }
    int asked = ask(s, m, entries, n, e), rc = store_replies(s, replies, asked < 0 ? NULL : e);
    int kept = asked < 0 || rc < 0 ? store_failed(e) : keep(m, replies, each, entries, n);
    for (int i = 0; i < each * n; i++) {
        freeReplyObject(replies[i]);
    }
    free(replies);
    return kept;
}

/* A job as the API answers it (docs/http-api.md), as text.
 *
 * The hash holds what is certain (state, times, spec); the live document is the monitor's and may
 * be missing, old or incomplete. The merged answer always has the same keys with values of the same
 * types, so that clients need not check for missing keys.
 *
 *   hash       name, state, …, spec (JSON) ──┐
 *                                            ├─► {"id": …, "spec": …, "progress": …, "workers": …}
 *   live, over what stands for one ──────────┘
 *
 * Documents are copied as they stand in the store, not parsed and printed again: a page of 500 jobs
 * is over a megabyte.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsontext.h"
#include "common/json/jsonx.h"
#include "common/text/words.h"

enum { PAGE_BYTES = 1 << 30, MEMBERS = 64 };

/* ---- fields of the hash ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum jobview_kind kind;
} fields[] = {
    {"name", JOBVIEW_TEXT},       {"state", JOBVIEW_TEXT},      {"attempt", JOBVIEW_NUMBER},
    {"priority", JOBVIEW_NUMBER}, {"restarts", JOBVIEW_NUMBER}, {"spec", JOBVIEW_JSON},
    {"created", JOBVIEW_TEXT},    {"started", JOBVIEW_TEXT},    {"finished", JOBVIEW_TEXT},
    {"error", JOBVIEW_JSON},      {"waiting", JOBVIEW_TEXT},    {"disk_bytes", JOBVIEW_NUMBER},
    {"pruned", JOBVIEW_TEXT},     {"tags", JOBVIEW_LIST},       {"note", JOBVIEW_TEXT},
    {"owner", JOBVIEW_TEXT},      {"resizes", JOBVIEW_LIST},    {"revision", JOBVIEW_HIDDEN},
};
enum { FIELDS = sizeof fields / sizeof *fields, STATE = 1, ATTEMPT = 2, PRIORITY = 3, SPEC = 5 };

enum jobview_kind jobview_kind(const char *name)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (!strcmp(fields[i].name, name)) {
            return fields[i].kind;
        }
    }
    return JOBVIEW_LIVE;
}

/* Do the words "a,b,c" have this key of n bytes? NULL: they have every key. */
static bool wants(const char *words, const char *key, size_t n)
{
    char word[64];
    for (const char *at = words; at && words_next(&at, word, sizeof word);) {
        if (!strncmp(word, key, n) && !word[n]) {
            return true;
        }
    }
    return !words;
}

/* Does one of the words name a part of the live document? */
static bool wants_live(const char *words)
{
    char word[64];
    for (const char *at = words; at && words_next(&at, word, sizeof word);) {
        if (strcmp(word, "id") != 0 && jobview_kind(word) == JOBVIEW_LIVE) {
            return true;
        }
    }
    return !words;
}

static long long number_of(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING ? strtoll(r->str, NULL, 10) : 0;
}

static struct jsontext document_of(const redisReply *r)
{
    return r && r->type == REDIS_REPLY_STRING ? jsontext_of(r->str, r->len)
                                              : (struct jsontext){NULL, 0};
}

static void add_text(struct buf *out, struct jsontext v, const char *otherwise)
{
    if (v.at) {
        buf_add(out, v.at, v.len);
    } else {
        buf_adds(out, otherwise);
    }
}

static void add_field(struct buf *out, enum jobview_kind kind, const redisReply *r)
{
    if (kind == JOBVIEW_NUMBER) {
        buf_addf(out, "%lld", number_of(r));
    } else if (kind == JOBVIEW_TEXT && r->type == REDIS_REPLY_STRING && r->len) {
        jsontext_quote(out, r->str, r->len);
    } else if (kind == JOBVIEW_TEXT) {
        buf_adds(out, "null");
    } else {
        add_text(out, document_of(r), kind == JOBVIEW_LIST ? "[]" : "null");
    }
}

/* ---- the live part --------------------------------------------------------------------------- */

#define NO_STALENESS                                                                            \
    "{\"update_mean\":0.0,\"node_mean\":0.0,\"sample_mean\":0.0,\"p50\":0,\"p95\":0,\"p99\":0," \
    "\"max\":0}"

struct members {
    struct {
        struct jsontext key, value;
    } all[MEMBERS];
    int n;
};

static void members_read(struct members *m, struct jsontext object)
{
    struct jsontext_walk walk = jsontext_members(object);
    for (m->n = 0; m->n < MEMBERS && jsontext_next(&walk, &m->all[m->n].key, &m->all[m->n].value);
         m->n++) {
    }
}

static struct jsontext members_find(const struct members *m, struct jsontext key)
{
    for (int i = 0; i < m->n; i++) {
        if (m->all[i].key.len == key.len && !memcmp(m->all[i].key.at, key.at, key.len)) {
            return m->all[i].value;
        }
    }
    return (struct jsontext){NULL, 0};
}

static void add_key(struct buf *out, struct jsontext key)
{
    const char last = out->len ? out->data[out->len - 1] : '{';
    buf_adds(out, last == '{' ? "\"" : ",\"");
    buf_add(out, key.at, key.len);
    buf_adds(out, "\":");
}

/* Adds an object with the keys of `over`, and those keys of `base` that `over` lacks. */
static void add_merged(struct buf *out, struct jsontext base, struct jsontext over)
{
    struct members defaults, values;
    members_read(&defaults, base);
    members_read(&values, over);
    buf_adds(out, "{");
    for (int i = 0; i < defaults.n; i++) {
        struct jsontext key = defaults.all[i].key, value = members_find(&values, key);
        add_key(out, key);
        add_text(out, value.at ? value : defaults.all[i].value, "null");
    }
    for (int i = 0; i < values.n; i++) {
        if (!members_find(&defaults, values.all[i].key).at) {
            add_key(out, values.all[i].key);
            add_text(out, values.all[i].value, "null");
        }
    }
    buf_adds(out, "}");
}

/* The live document before the monitor has written one. */
static struct jsontext nothing_live(struct jsontext spec, char *out, size_t size)
{
    double ignored;
    struct jsontext epochs = jsontext_find(spec, "epochs"),
                    batch = jsontext_find(spec, "batching.global_batch");
    bool ends = jsontext_number(epochs, &ignored), sized = jsontext_number(batch, &ignored);
    int n = snprintf(out, size,
                     "{\"progress\":{\"epoch\":0.0,\"epochs\":%.*s,\"step\":0,\"samples\":0,"
                     "\"fraction\":0.0},\"metrics\":{\"train_loss\":null,\"test_loss\":null,"
                     "\"test_accuracy\":null,\"best_test_accuracy\":null,"
                     "\"samples_per_second\":0.0,\"step_seconds\":0.0},"
                     "\"staleness\":" NO_STALENESS ",\"staleness_recent\":" NO_STALENESS
                     ",\"assignment\":{\"version\":0,\"global_batch\":%.*s},\"servers\":[],"
                     "\"workers\":[]}",
                     ends ? (int)epochs.len : 1, ends ? epochs.at : "0", sized ? (int)batch.len : 1,
                     sized ? batch.at : "0");
    return (struct jsontext){out, (size_t)n};
}

/* Adds the keys of the live document; a value of an unexpected type is left out. */
static void add_live(struct buf *out, struct jsontext spec, const redisReply *live,
                     const char *words)
{
    char text[1024];
    struct members base, given;
    members_read(&base, nothing_live(spec, text, sizeof text));
    members_read(&given, document_of(live));
    for (int i = 0; i < base.n; i++) {
        struct jsontext key = base.all[i].key, value = base.all[i].value,
                        got = members_find(&given, key);
        if (!wants(words, key.at, key.len)) {
            continue;
        }
        add_key(out, key);
        if (jsontext_is_object(value)) {
            add_merged(out, value, jsontext_is_object(got) ? got : (struct jsontext){NULL, 0});
        } else {
            add_text(out, jsontext_is_array(got) ? got : value, "[]");
        }
    }
    for (int i = 0; i < given.n; i++) {
        struct jsontext key = given.all[i].key;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)key.len, key.at);
        if (!members_find(&base, key).at && wants(words, key.at, key.len) &&
            jobview_kind(name) == JOBVIEW_LIVE && strcmp(name, "id") != 0) {
            add_key(out, key);
            add_text(out, given.all[i].value, "null");
        }
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Adds a job from the values of all its fields. false: there is no such job. */
static bool add_job(struct buf *out, const char *id, const redisReply *hash, const redisReply *live,
                    const char *words)
{
    if (hash->type != REDIS_REPLY_ARRAY || hash->elements != FIELDS ||
        hash->element[STATE]->type != REDIS_REPLY_STRING) {
        return false;
    }
    buf_addf(out, "{\"id\":\"%s\"", id);
    for (size_t i = 0; i < FIELDS; i++) {
        const char *name = fields[i].name;
        if (fields[i].kind != JOBVIEW_HIDDEN && wants(words, name, strlen(name))) {
            add_key(out, (struct jsontext){name, strlen(name)});
            add_field(out, fields[i].kind, hash->element[i]);
        }
    }
    if (live) {
        add_live(out, document_of(hash->element[SPEC]), live, words);
    }
    buf_adds(out, "}");
    return true;
}

/* Asks for what the words name: the fields of each job, and the live document if it is needed. */
static int ask_jobs(struct store *s, int n, const char **ids, const char *words, struct err *e)
{
    char key[STORE_KEY];
    const char *argv[2 + FIELDS] = {"HMGET", key};
    bool live = wants_live(words);
    int rc = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        /* for a field that is not wanted it asks for a name that no hash has */
        bool wanted = fields[i].kind == JOBVIEW_HIDDEN || i == STATE || i == ATTEMPT ||
                      i == PRIORITY || (i == SPEC && live) ||
                      wants(words, fields[i].name, strlen(fields[i].name));
        argv[2 + i] = wanted ? fields[i].name : "";
    }
    for (int i = 0; rc == 0 && i < n; i++) {
        if ((rc = key_of_job(key, KEY_JOB, ids[i], e)) < 0 ||
            (rc = store_append_argv(s, 2 + FIELDS, argv, e)) < 0) {
            return rc;
        }
        if (live && (rc = key_of_job(key, KEY_JOB_LIVE, ids[i], e)) == 0) {
            rc = store_append(s, e, "GET %s", key);
        }
    }
    return rc;
}

/* The replies about n jobs, at most [2 * n]; NULL with an error. Free them with free_replies(). */
static redisReply **take_replies(struct store *s, int n, const char **ids, const char *words,
                                 struct err *e)
{
    redisReply **replies = calloc(2 * (size_t)n + 1, sizeof *replies);
    if (!replies) {
        err_set(e, ERR_MEMORY, "cannot read the jobs: memory ran out");
        return NULL;
    }
    int asked = ask_jobs(s, n, ids, words, e);
    if (store_replies(s, replies, asked < 0 ? NULL : e) < 0 || asked < 0) {
        for (int i = 0; i < 2 * n; i++) {
            freeReplyObject(replies[i]);
        }
        free(replies);
        return NULL;
    }
    return replies;
}

static void free_replies(redisReply **replies, int n)
{
    for (int i = 0; i < n; i++) {
        freeReplyObject(replies[i]);
    }
    free(replies);
}

int jobview_append(struct store *s, int n, const char **ids, const char *words, struct buf *out,
                   struct err *e)
{
    int each = wants_live(words) ? 2 : 1, added = 0;
    redisReply **replies = n ? take_replies(s, n, ids, words, e) : NULL;
    if (n && !replies) {
        return store_failed(e);
    }
    for (int i = 0; i < n; i++) {
        redisReply **of = replies + (size_t)each * (size_t)i;
        size_t before = out->len;
        buf_adds(out, added ? "," : "");
        if (add_job(out, ids[i], of[0], each == 2 ? of[1] : NULL, words)) {
            added++;
        } else {
            out->len = before;
        }
    }
    if (replies) {
        free_replies(replies, each * n);
    }
    return out->failed ? err_set(e, ERR_MEMORY, "cannot print the jobs: memory ran out") : added;
}

static void version_of(const redisReply *hash, char out[STORE_VERSION])
{
    const redisReply *state = hash->element[STATE];
    snprintf(out, STORE_VERSION, "%.20s-%lld-%lld-%lld", state->str,
             number_of(hash->element[ATTEMPT]), number_of(hash->element[PRIORITY]),
             number_of(hash->element[FIELDS - 1]));
}

/* Appends one job, with the keys that the words name. `version` may be NULL. */
static int read_one(struct store *s, const char *id, const char *words, struct buf *out,
                    char version[STORE_VERSION], struct err *e)
{
    char key[STORE_KEY];
    bool live = wants_live(words);
    int rc = key_of_job(key, KEY_JOB, id, e);
    redisReply **replies = rc < 0 ? NULL : take_replies(s, 1, &id, words, e);
    if (!replies) {
        return store_failed(e);
    }
    if (!add_job(out, id, replies[0], live ? replies[1] : NULL, words)) {
        rc = store_no_job(id, e);
    } else if (version) {
        version_of(replies[0], version);
    }
    free_replies(replies, live ? 2 : 1);
    return rc;
}

char *store_job_text(struct store *s, const char *id, char version[STORE_VERSION], size_t *len,
                     struct err *e)
{
    struct buf out;
    buf_init(&out, PAGE_BYTES);
    char *text = read_one(s, id, NULL, &out, version, e) == 0 ? buf_take(&out, len) : NULL;
    buf_release(&out);
    return text;
}

int store_job_version(struct store *s, const char *id, char version[STORE_VERSION], struct err *e)
{
    struct buf out;
    buf_init(&out, PAGE_BYTES);
    int rc = read_one(s, id, "id", &out, version, e);
    buf_release(&out);
    return rc;
}

json_t *store_job_get(struct store *s, const char *id, struct err *e)
{
    size_t len = 0;
    char *text = store_job_text(s, id, NULL, &len, e);
    json_t *job = text ? jsonx_parse(text, len, e) : NULL;
    free(text);
    return job;
}

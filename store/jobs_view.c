/* A job as DESIGN.md section 9 prints it, and lists of jobs.
 *
 * The hash holds what is certain (state, times, spec); the live document is the monitor's and may
 * be missing, old or incomplete. The merged answer always has the same keys with values of the same
 * types, so that clients need not check for missing keys. Lists walk an index of light entries
 * (name, priority) first and read whole jobs only for the page that is asked for.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/jsonx.h"

enum { LIST_CHUNK = 500, LIST_ALL = 100000, LIST_LIMIT = 500 };

/* ---- one job --------------------------------------------------------------------------------- */

static json_t *text_or_null(const redisReply *hash, const char *name)
{
    size_t len = 0;
    const char *text = reply_field(hash, name, &len);
    json_t *j = text && len ? json_stringn(text, len) : NULL;
    return j ? j : json_null();
}

static json_int_t number_of(const redisReply *hash, const char *name)
{
    const char *text = reply_field(hash, name, NULL);
    return text ? (json_int_t)strtoll(text, NULL, 10) : 0;
}

/* The document of a field, or null where there is none or it is damaged. */
static json_t *doc_or_null(const redisReply *hash, const char *name)
{
    size_t len = 0;
    const char *text = reply_field(hash, name, &len);
    json_t *j = text ? jsonx_parse(text, len, NULL) : NULL;
    return j ? j : json_null();
}

static json_t *empty_staleness(void)
{
    return json_pack("{s:f, s:f, s:f, s:i, s:i, s:i, s:i}", "update_mean", 0.0, "node_mean", 0.0,
                     "sample_mean", 0.0, "p50", 0, "p95", 0, "p99", 0, "max", 0);
}

static json_t *number_or_zero(json_t *j)
{
    return json_is_number(j) ? json_incref(j) : json_integer(0);
}

/* The monitor's part of a job before the monitor has written one. */
static json_t *empty_live(const json_t *spec)
{
    json_t *epochs = number_or_zero(json_object_get(spec, "epochs"));
    json_t *batch =
        number_or_zero(json_object_get(json_object_get(spec, "batching"), "global_batch"));
    return json_pack(
        "{s:{s:f, s:o, s:i, s:i, s:f}, s:{s:n, s:n, s:n, s:f, s:f}, s:o, s:o, s:{s:i, s:o}, s:[], "
        "s:[]}",
        "progress", "epoch", 0.0, "epochs", epochs, "step", 0, "samples", 0, "fraction", 0.0,
        "metrics", "train_loss", "test_loss", "test_accuracy", "samples_per_second", 0.0,
        "step_seconds", 0.0, "staleness", empty_staleness(), "staleness_recent", empty_staleness(),
        "assignment", "version", 0, "global_batch", batch, "servers", "workers");
}

/* Adds to `job` the keys of the live document; a value of an unexpected type is left out.
 */
static void merge_live(json_t *job, json_t *base, const json_t *live)
{
    const char *key;
    json_t *value;
    json_object_foreach(base, key, value) {
        json_t *got = json_object_get(live, key);
        if (got && json_is_object(value) && json_is_object(got)) {
            json_object_update(value, got);
        } else if (got && json_is_array(value) && json_is_array(got)) {
            value = got;
        }
        json_object_set(job, key, value);
    }
    json_object_foreach((json_t *)live, key, value) {
        if (!json_object_get(job, key)) {
            json_object_set(job, key, value);
        }
    }
}

json_t *jobview_from_reply(const char *id, const redisReply *hash, const redisReply *live,
                           struct err *e)
{
    if (!reply_field(hash, "state", NULL)) {
        store_no_job(id, e);
        return NULL;
    }
    json_t *spec = doc_or_null(hash, "spec");
    json_t *job = json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:O, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "id", id, "name",
        text_or_null(hash, "name"), "state", text_or_null(hash, "state"), "attempt",
        number_of(hash, "attempt"), "priority", number_of(hash, "priority"), "restarts",
        number_of(hash, "restarts"), "spec", spec, "created", text_or_null(hash, "created"),
        "started", text_or_null(hash, "started"), "finished", text_or_null(hash, "finished"),
        "error", doc_or_null(hash, "error"), "waiting", text_or_null(hash, "waiting"), "disk_bytes",
        number_of(hash, "disk_bytes"), "pruned", text_or_null(hash, "pruned"));
    json_t *base = empty_live(spec), *doc = reply_json(live, NULL);
    if (job && base) {
        json_t *none = json_object();
        merge_live(job, base, json_is_object(doc) ? doc : none);
        json_decref(none);
    } else {
        err_set(e, ERR_MEMORY, "cannot print job '%s': memory ran out", id);
        json_decref(job);
        job = NULL;
    }
    json_decref(spec);
    json_decref(base);
    json_decref(doc);
    return job;
}

static struct script read_script = {.text = LUA_JOB_READ};

/* The replies of read_script for these ids. */
static redisReply *ask_jobs(struct store *s, int n, const char **ids, struct err *e)
{
    size_t count = 2 * (size_t)n;
    char(*text)[STORE_KEY] = calloc(count, sizeof *text);
    const char **keys = calloc(count, sizeof *keys);
    redisReply *r = NULL;
    int rc = text && keys ? 0 : err_set(e, ERR_MEMORY, "cannot read the jobs: memory ran out");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = key_of_job(text[i], i % 2 ? KEY_JOB_LIVE : KEY_JOB, ids[i / 2], e);
        keys[i] = text[i];
    }
    if (rc == 0) {
        r = store_script(s, &read_script, (int)count, keys, 0, NULL, NULL, e);
    }
    free(text);
    free(keys);
    return r;
}

/* Whole jobs of these ids, in their order; those deleted meanwhile are left out. */
static json_t *read_jobs(struct store *s, int n, const char **ids, struct err *e)
{
    json_t *out = json_array();
    redisReply *r = n ? ask_jobs(s, n, ids, e) : NULL;
    if (n && (!r || reply_record(r, (size_t)n, e) < n)) {
        json_decref(out);
        out = NULL;
    }
    for (int i = 0; out && i < n; i++) {
        const redisReply *one = r->element[i];
        json_t *job = one->type == REDIS_REPLY_ARRAY && one->elements == 2
                          ? jobview_from_reply(ids[i], one->element[0], one->element[1], NULL)
                          : NULL;
        if (job) {
            json_array_append_new(out, job);
        }
    }
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

json_t *store_job_get(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    if (key_of_job(key, KEY_JOB, id, e) < 0) {
        return NULL;
    }
    json_t *all = read_jobs(s, 1, &id, e);
    json_t *job = json_incref(json_array_get(all, 0));
    if (all && !job) {
        store_no_job(id, e);
    }
    json_decref(all);
    return job;
}

/* ---- lists ----------------------------------------------------------------------------------- */

struct entry {
    char id[40], name[128];
    int64_t priority, number;
};

struct entries {
    struct entry *items; /* owned */
    int count, size;
};

static struct script list_script = {.text = LUA_JOB_LIST};

static int add_entry(struct entries *all, redisReply *const *four, struct err *e)
{
    const char *text[4];
    for (int i = 0; i < 4; i++) {
        if (reply_text(four[i], &text[i], NULL, e) <= 0) {
            return -ERR_DATA;
        }
    }
    if (all->count == all->size) {
        int size = all->size ? 2 * all->size : 64;
        struct entry *more = realloc(all->items, (size_t)size * sizeof *more);
        if (!more) {
            return err_set(e, ERR_MEMORY, "cannot list the jobs: memory ran out");
        }
        all->items = more;
        all->size = size;
    }
    struct entry *at = &all->items[all->count++];
    snprintf(at->id, sizeof at->id, "%s", text[0]);
    snprintf(at->name, sizeof at->name, "%s", text[1]);
    at->priority = strtoll(text[2], NULL, 10);
    at->number = strtoll(text[3], NULL, 10);
    return 0;
}

static bool matches(const struct entry *at, const char *q)
{
    return !q || !q[0] || strcasestr(at->name, q) || !strncmp(at->id, q, strlen(q));
}

/* Entries of an index beyond `bound` that match, until there are `want`. */
static int collect(struct store *s, const char *index, bool rev, const char *bound, const char *q,
                   int want, struct entries *all, struct err *e)
{
    char at[32], chunk[16], prefix[STORE_KEY];
    key_prefix(prefix, KEY_JOB);
    int step = q || want > LIST_CHUNK ? LIST_CHUNK : want;
    snprintf(at, sizeof at, "%s", bound);
    snprintf(chunk, sizeof chunk, "%d", step);
    for (;;) {
        const char *args[] = {rev ? "1" : "0", at, chunk, prefix};
        redisReply *r = store_script(s, &list_script, 1, &index, 4, args, NULL, e);
        int n = r ? reply_array(r, 4, e) : -1, rc = n < 0 ? -1 : 0;
        for (int i = 0; !rc && i + 3 < n; i += 4) {
            rc = add_entry(all, r->element + i, e);
            if (!rc) {
                const struct entry *last = &all->items[all->count - 1];
                snprintf(at, sizeof at, "%lld", (long long)last->number);
                all->count -= !matches(last, q);
            }
        }
        if (r) {
            freeReplyObject(r);
        }
        if (rc < 0) {
            return store_failed(e);
        }
        if (all->count >= want || n / 4 < step) {
            return 0;
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = strcasecmp(x->name, y->name);
    c = c ? c : strcmp(x->name, y->name);
    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static int by_priority(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->priority != y->priority) {
        return x->priority > y->priority ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

/* A cursor is "NUMBER", "NUMBER.PRIORITY" or "NUMBER.HEX-OF-NAME" of the last job on the page
 * before. */
static void cursor_print(char *out, size_t n, const struct entry *at, const char *sort)
{
    int len = snprintf(out, n, "%lld", (long long)at->number);
    if (!strcmp(sort, "priority")) {
        snprintf(out + len, n - (size_t)len, ".%lld", (long long)at->priority);
    } else if (!strcmp(sort, "name")) {
        len += snprintf(out + len, n - (size_t)len, ".");
        for (const char *c = at->name; *c; c++) {
            len += snprintf(out + len, n - (size_t)len, "%02x", (unsigned char)*c);
        }
    }
}

static int hex_digit(char c)
{
    const char *at = c ? strchr("0123456789abcdef", c) : NULL;
    return at ? (int)(at - "0123456789abcdef") : -1;
}

static int cursor_parse(const char *text, struct entry *at, const char *sort, struct err *e)
{
    char *end = NULL;
    memset(at, 0, sizeof *at);
    errno = 0;
    at->number = strtoll(text, &end, 10);
    bool good = end != text && !errno && at->number >= 0;
    if (good && !strcmp(sort, "priority")) {
        good = *end == '.' && isdigit((unsigned char)end[end[1] == '-' ? 2 : 1]);
        at->priority = good ? strtoll(end + 1, &end, 10) : 0;
    } else if (good && !strcmp(sort, "name")) {
        good = *end++ == '.';
        for (size_t i = 0; good && *end && i + 1 < sizeof at->name; i++, end += 2) {
            int hi = hex_digit(end[0]), lo = hi < 0 ? -1 : hex_digit(end[1]);
            good = lo >= 0;
            at->name[i] = good ? (char)(hi * 16 + lo) : 0;
        }
    }
    return good && !*end
               ? 0
               : err_set(e, ERR_INVALID, "the cursor '%.60s' is not one of this list", text);
}

/* Sorts everything there is and moves what follows the cursor to the front. */
static void order(struct entries *all, const char *sort, const struct entry *after)
{
    int (*compare)(const void *, const void *) = !strcmp(sort, "name") ? by_name : by_priority;
    if (all->count) {
        qsort(all->items, (size_t)all->count, sizeof *all->items, compare);
    }
    int first = 0;
    while (after && first < all->count && compare(&all->items[first], after) <= 0) {
        first++;
    }
    if (first) {
        all->count -= first;
        memmove(all->items, all->items + first, (size_t)all->count * sizeof *all->items);
    }
}

static json_t *page(struct store *s, const struct entries *all, int limit, const char *sort,
                    struct err *e)
{
    const char *ids[LIST_LIMIT];
    int n = all->count < limit ? all->count : limit;
    for (int i = 0; i < n; i++) {
        ids[i] = all->items[i].id;
    }
    json_t *jobs = read_jobs(s, n, ids, e);
    if (!jobs) {
        return NULL;
    }
    char next[320];
    if (all->count > limit) {
        cursor_print(next, sizeof next, &all->items[limit - 1], sort);
    }
    return json_pack("{s:o, s:o}", "jobs", jobs, "next",
                     all->count > limit ? json_string(next) : json_null());
}

json_t *store_job_list(struct store *s, const char *state, const char *q, const char *sort,
                       const char *cursor, int limit, struct err *e)
{
    static const char *const sorts[] = {"-created", "created", "priority", "name"};
    char index[STORE_KEY], bound[32];
    struct entries all = {0};
    struct entry after;
    json_t *out = NULL;
    snprintf(index, sizeof index, "%s", key_text(KEY_JOBS));
    sort = sort && sort[0] ? sort : sorts[0];
    q = q && q[0] ? q : NULL;
    cursor = cursor && cursor[0] ? cursor : NULL;
    limit = limit < 1 ? 50 : limit > LIST_LIMIT ? LIST_LIMIT : limit;
    int kind = 0;
    while (kind < 4 && strcmp(sort, sorts[kind])) {
        kind++;
    }
    if (kind == 4) {
        err_set(e, ERR_INVALID,
                "jobs are sorted by created, -created, priority or name, not by '%.40s'", sort);
        return NULL;
    }
    if (state && state[0]) {
        if (jobstate_find(state) < 0) {
            err_set(e, ERR_INVALID, "there is no state '%.40s' of a job", state);
            return NULL;
        }
        key_named(index, KEY_STATE, state, NULL);
    }
    if (cursor && cursor_parse(cursor, &after, sort, e) < 0) {
        return NULL;
    }
    bool rev = kind == 0, whole = kind >= 2;
    snprintf(bound, sizeof bound, "%s", rev ? "+inf" : "-inf");
    if (cursor && !whole) {
        snprintf(bound, sizeof bound, "%lld", (long long)after.number);
    }
    if (collect(s, index, rev, bound, q, whole ? LIST_ALL : limit + 1, &all, e) == 0) {
        if (whole) {
            order(&all, sort, cursor ? &after : NULL);
        }
        out = page(s, &all, limit, sort, e);
    }
    free(all.items);
    return out;
}

static json_t *ids_of(const redisReply *r, struct err *e)
{
    int n = reply_array(r, 0, e);
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        const char *id = NULL;
        if (reply_text(r->element[i], &id, NULL, e) > 0) {
            json_array_append_new(out, json_string(id));
        }
    }
    return out;
}

json_t *store_job_ids(struct store *s, enum job_state state, struct err *e)
{
    char key[STORE_KEY];
    snprintf(key, sizeof key, "%s", key_text(KEY_QUEUE));
    if (state != JOB_QUEUED) {
        key_named(key, KEY_STATE, jobstate_name(state), NULL);
    }
    redisReply *r = store_commandf(s, e, "ZRANGE %s 0 -1", key);
    json_t *out = r ? ids_of(r, e) : NULL;
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

/* The replies of what store_overview asks: queue, who is cancelled, and the state of each of the
 * ids. */
static json_t *overview_of(redisReply *const *replies, const json_t *ids, struct err *e)
{
    json_t *out = json_pack("{s:o*, s:o*, s:{}}", "queued", ids_of(replies[0], e), "cancelling",
                            ids_of(replies[1], e), "states"),
           *id;
    size_t i;
    json_array_foreach(ids, i, id) {
        const char *state = NULL;
        int rc = reply_text(replies[2 + i], &state, NULL, e);
        if (rc >= 0) {
            json_object_set_new(json_object_get(out, "states"), json_string_value(id),
                                rc > 0 ? json_string(state) : json_null());
        }
    }
    if (json_object_size(out) == 3) {
        return out;
    }
    json_decref(out);
    return NULL;
}

static int ask_overview(struct store *s, const json_t *ids, struct err *e)
{
    char key[STORE_KEY];
    size_t i;
    json_t *id;
    int rc = store_append(s, e, "ZRANGE %s 0 -1", key_text(KEY_QUEUE));
    if (rc < 0 || (rc = key_named(key, KEY_STATE, jobstate_name(JOB_CANCELLING), e)) < 0 ||
        (rc = store_append(s, e, "ZRANGE %s 0 -1", key)) < 0) {
        return rc;
    }
    json_array_foreach(ids, i, id) {
        if ((rc = key_of_job(key, KEY_JOB, json_string_value(id), e)) < 0 ||
            (rc = store_append(s, e, "HGET %s state", key)) < 0) {
            return rc;
        }
    }
    return 0;
}

json_t *store_overview(struct store *s, const json_t *ids, struct err *e)
{
    size_t i, n = json_array_size(ids);
    json_t *out = NULL;
    redisReply **replies = calloc(n + 2, sizeof(redisReply *));
    if (!replies) {
        err_set(e, ERR_MEMORY, "cannot read the jobs: memory ran out");
        return NULL;
    }
    if (ask_overview(s, ids, e) >= 0 && store_replies(s, replies, e) >= 0) {
        out = overview_of(replies, ids, e);
        for (i = 0; i < n + 2; i++) {
            freeReplyObject(replies[i]);
        }
    }
    free(replies);
    return out;
}

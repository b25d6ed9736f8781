/* A job as DESIGN.md section 9 prints it, and the ids of jobs by state.
 *
 * The hash holds what is certain (state, times, spec); the live document is the monitor's and may
 * be missing, old or incomplete. The merged answer always has the same keys with values of the same
 * types, so that clients need not check for missing keys.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"

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
        "{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:O, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "id", id,
        "name", text_or_null(hash, "name"), "owner", text_or_null(hash, "owner"), "state",
        text_or_null(hash, "state"), "attempt", number_of(hash, "attempt"), "priority",
        number_of(hash, "priority"), "restarts", number_of(hash, "restarts"), "spec", spec,
        "created", text_or_null(hash, "created"), "started", text_or_null(hash, "started"),
        "finished", text_or_null(hash, "finished"), "error", doc_or_null(hash, "error"), "waiting",
        text_or_null(hash, "waiting"), "disk_bytes", number_of(hash, "disk_bytes"), "pruned",
        text_or_null(hash, "pruned"));
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

json_t *jobview_read(struct store *s, int n, const char **ids, struct err *e)
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
    json_t *all = jobview_read(s, 1, &id, e);
    json_t *job = json_incref(json_array_get(all, 0));
    if (all && !job) {
        store_no_job(id, e);
    }
    json_decref(all);
    return job;
}

/* ---- ids and states -------------------------------------------------------------------------- */

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

/* Ids of jobs by state, and what a scheduler asks again and again: the queue with its priorities,
 * the cancelled jobs, the states of those that it runs, in one round trip. The index of each state
 * is kept by the scripts of store/lua.
 */
#include "store/internal.h"

#include <math.h>
#include <stdlib.h>

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

/* Ids with their scores, of the queue: ids and priorities into two arrays of `out`. The score is
 * number - priority * 10^10 (store/lua/shared/score.lua). */
static void read_queue(const redisReply *r, json_t *out, struct err *e)
{
    int n = reply_array(r, 0, e);
    json_t *queued = n < 0 ? NULL : json_array(), *priorities = n < 0 ? NULL : json_array();
    for (int i = 0; queued && i + 1 < n; i += 2) {
        const char *id = NULL, *score = NULL;
        if (reply_text(r->element[i], &id, NULL, e) > 0 &&
            reply_text(r->element[i + 1], &score, NULL, e) > 0) {
            json_array_append_new(queued, json_string(id));
            json_array_append_new(
                priorities, json_integer((json_int_t)floor((1e10 - strtod(score, NULL)) / 1e10)));
        }
    }
    if (queued) {
        json_object_set_new(out, "queued", queued);
        json_object_set_new(out, "priorities", priorities);
    }
}

/* The replies of what store_overview asks: queue, who is cancelled, and the state of each of the
 * ids. */
static json_t *overview_of(redisReply *const *replies, const json_t *ids, struct err *e)
{
    json_t *out = json_pack("{s:o*, s:{}}", "cancelling", ids_of(replies[1], e), "states"), *id;
    size_t i;
    read_queue(replies[0], out, e);
    json_array_foreach(ids, i, id) {
        const char *state = NULL;
        int rc = reply_text(replies[2 + i], &state, NULL, e);
        if (rc >= 0) {
            json_object_set_new(json_object_get(out, "states"), json_string_value(id),
                                rc > 0 ? json_string(state) : json_null());
        }
    }
    if (json_object_size(out) == 4) {
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
    int rc = store_append(s, e, "ZRANGE %s 0 -1 WITHSCORES", key_text(KEY_QUEUE));
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

/* Ids of jobs by state, and what a scheduler asks again and again: the queue with its priorities,
 * the cancelled jobs, the states of those that it runs, in one round trip. The index of each state
 * is kept by the scripts of store/lua.
 */
#include "store/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    freeReplyObject(r);
    return out;
}

/* ---- the overview ---------------------------------------------------------------------------- */

enum { ASKED_AT = 2 }; /* index of the first reply about a job */

/* An id of the index; NULL: it is no valid id. */
static const char *id_of(const redisReply *r, struct err *e)
{
    const char *id = NULL;
    return reply_text(r, &id, NULL, e) > 0 && strlen(id) < STORE_ID ? id : NULL;
}

static int no_memory(struct err *e)
{
    return err_set(e, ERR_MEMORY, "cannot read the jobs: memory ran out");
}

/* Reads ids with their scores. The score is number - priority * 10^10
 * (store/lua/shared/score.lua). */
static int read_queue(const redisReply *r, struct store_overview *out, struct err *e)
{
    int n = reply_array(r, 0, e);
    out->queued = n < 0 ? NULL : calloc((size_t)n / 2 + 1, sizeof *out->queued);
    if (!out->queued) {
        return n < 0 ? n : no_memory(e);
    }
    for (int i = 0; i + 1 < n; i += 2) {
        const char *id = id_of(r->element[i], e), *score = NULL;
        if (id && reply_text(r->element[i + 1], &score, NULL, e) > 0) {
            struct queued_job *job = &out->queued[out->n_queued++];
            snprintf(job->id, sizeof job->id, "%s", id);
            job->priority = (int)floor((1e10 - strtod(score, NULL)) / 1e10);
        }
    }
    return 0;
}

static int read_cancelling(const redisReply *r, struct store_overview *out, struct err *e)
{
    int n = reply_array(r, 0, e);
    out->cancelling = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *out->cancelling);
    if (!out->cancelling) {
        return n < 0 ? n : no_memory(e);
    }
    for (int i = 0; i < n; i++) {
        const char *id = id_of(r->element[i], e);
        if (id) {
            snprintf(out->cancelling[out->n_cancelling++], STORE_ID, "%s", id);
        }
    }
    return 0;
}

static int read_states(redisReply *const *replies, const char *const *ids, size_t n,
                       struct store_overview *out, struct err *e)
{
    out->asked = calloc(n + 1, sizeof *out->asked);
    if (!out->asked) {
        return no_memory(e);
    }
    for (size_t i = 0; i < n; i++) {
        const char *state = NULL;
        struct seen_job *job = &out->asked[out->n_asked++];
        snprintf(job->id, sizeof job->id, "%s", ids[i]);
        job->state = reply_text(replies[i], &state, NULL, e) > 0 ? jobstate_find(state) : -1;
    }
    return 0;
}

static int ask_overview(struct store *s, const char *const *ids, size_t n, struct err *e)
{
    char key[STORE_KEY];
    int rc = store_append(s, e, "ZRANGE %s 0 -1 WITHSCORES", key_text(KEY_QUEUE));
    if (rc < 0 || (rc = key_named(key, KEY_STATE, jobstate_name(JOB_CANCELLING), e)) < 0 ||
        (rc = store_append(s, e, "ZRANGE %s 0 -1", key)) < 0) {
        return rc;
    }
    for (size_t i = 0; i < n; i++) {
        if ((rc = key_of_job(key, KEY_JOB, ids[i], e)) < 0 ||
            (rc = store_append(s, e, "HGET %s state", key)) < 0) {
            return rc;
        }
    }
    return 0;
}

int store_overview_read(struct store *s, struct store_overview *out, const char *const *ids,
                        size_t n, struct err *e)
{
    redisReply **replies = calloc(n + ASKED_AT, sizeof(redisReply *));
    *out = (struct store_overview){0};
    if (!replies) {
        return no_memory(e);
    }
    int rc = ask_overview(s, ids, n, e);
    if (rc >= 0 && (rc = store_replies(s, replies, e)) >= 0) {
        if ((rc = read_queue(replies[0], out, e)) >= 0 &&
            (rc = read_cancelling(replies[1], out, e)) >= 0) {
            rc = read_states(replies + ASKED_AT, ids, n, out, e);
        }
        for (size_t i = 0; i < n + ASKED_AT; i++) {
            freeReplyObject(replies[i]);
        }
    }
    free(replies);
    if (rc < 0) {
        store_overview_release(out);
    }
    return rc;
}

void store_overview_release(struct store_overview *o)
{
    free(o->queued);
    free(o->cancelling);
    free(o->asked);
    *o = (struct store_overview){0};
}

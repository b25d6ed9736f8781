/* Jobs in the store: created, moved along the arrows of job/state.c, deleted.
 *
 * Every change of a state is one Lua script: it compares the state with what the caller saw, writes
 * the fields, moves the id between the indexes and publishes the event, all or nothing. Two
 * schedulers, or a scheduler and a user, can therefore both try; one of them gets ERR_CONFLICT.
 * Fields and documents are in documents.c, reading as JSON in view.c, the scripts in store/lua, the
 * keys in keys.def.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/text/hex.h"
#include "common/json/jsonx.h"

/* ---- creating -------------------------------------------------------------------------------- */

static struct script create_script = {.text =
                                          LUA_SCORE LUA_JOB_EVENT LUA_IDEMPOTENT LUA_JOB_CREATE};

static int check_priority(int priority, struct err *e)
{
    return priority >= -STORE_PRIORITY && priority <= STORE_PRIORITY
               ? 0
               : err_set(e, ERR_INVALID, "the priority %d is not within %d and %d", priority,
                         -STORE_PRIORITY, STORE_PRIORITY);
}

int store_random_id(char id[STORE_ID], struct err *e)
{
    unsigned char bytes[8];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return err_errno(e, ERR_INTERNAL, "cannot make a random id");
    }
    hex_of(id, bytes, sizeof bytes);
    return 0;
}

/* The digest does not depend on the order of keys. */
int store_digest(const json_t *document, char out[65], struct err *e)
{
    char *text = json_dumps(document, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text) {
        return err_set(e, ERR_INTERNAL, "cannot take the digest of what is not a JSON document");
    }
    store_hex_sha256(text, strlen(text), out);
    free(text);
    return 0;
}

/* The spec's tags as text, malloc'd; NULL: it has none. */
static char *tags_of(const json_t *spec)
{
    const json_t *tags = json_object_get(spec, "tags");
    return json_array_size(tags) ? jsonx_dump(tags, false, NULL) : NULL;
}

/* The first number in the answer of lua/job_create.lua and sweep_create.lua. */
enum made { MADE, MADE_BEFORE, MADE_OF_ANOTHER_SPEC, MADE_WITH_THIS_ID };

int store_created(const redisReply *r, const char *what, char id[STORE_ID], struct err *e)
{
    int64_t how = 0;
    const char *given = "";
    if (reply_array(r, 2, e) < 2 || reply_int(r->element[0], &how, e) < 0 ||
        reply_text(r->element[1], &given, NULL, e) < 0) {
        return err_set(e, ERR_DATA, "the store's answer to a new %s is malformed", what);
    }
    if (how == MADE_OF_ANOTHER_SPEC) {
        return err_set(e, ERR_CONFLICT,
                       "this idempotency key was used for %s '%s' with another spec", what, given);
    }
    if (how == MADE_WITH_THIS_ID) {
        return err_set(e, ERR_INTERNAL, "cannot make the %s: its random id is taken", what);
    }
    snprintf(id, STORE_ID, "%s", given);
    return how == MADE_BEFORE ? JOB_CREATED_BEFORE : JOB_CREATED;
}

void store_idempotency_key(char out[STORE_KEY], const char *given)
{
    char hash[65];
    store_hex_sha256(given, strlen(given), hash);
    key_named(out, KEY_IDEMPOTENCY, hash, NULL);
}

int store_job_made(struct store *s, const char *idempotency_key, struct err *e)
{
    char key[STORE_KEY];
    int64_t there = 0;
    store_idempotency_key(key, idempotency_key);
    redisReply *r = store_commandf(s, e, "EXISTS %s", key);
    int rc = r ? reply_int(r, &there, e) : store_failed(e);
    freeReplyObject(r);
    return rc < 0 ? rc : there > 0;
}

int store_job_create(struct store *s, const json_t *spec, int priority, const char *idempotency_key,
                     const char *owner, char id[STORE_ID], struct err *e)
{
    char job[STORE_KEY], queued[STORE_KEY], idem[STORE_KEY] = "", fresh[STORE_ID], digest[65],
                                            when[32], prio[16], life[16];
    int rc = check_priority(priority, e);
    if (rc < 0 || (rc = store_random_id(fresh, e)) < 0 ||
        (rc = key_of_job(job, KEY_JOB, fresh, e)) < 0 || (rc = store_digest(spec, digest, e)) < 0) {
        return rc;
    }
    if (idempotency_key && idempotency_key[0]) {
        store_idempotency_key(idem, idempotency_key);
    }
    char *text = store_dump(spec, "the job's spec", e), *tags = tags_of(spec);
    if (!text) {
        free(tags);
        return store_failed(e);
    }
    const char *name = json_string_value(json_object_get(spec, "name"));
    snprintf(prio, sizeof prio, "%d", priority);
    snprintf(life, sizeof life, "%d", STORE_IDEMPOTENCY_S);
    key_named(queued, KEY_STATE, jobstate_name(JOB_QUEUED), NULL);
    const char *keys[] = {job,    key_text(KEY_JOBS),   key_text(KEY_QUEUE),
                          queued, key_text(KEY_EVENTS), key_text(KEY_JOBS_NUMBER),
                          idem};
    const char *args[] = {fresh,
                          text,
                          name ? name : "",
                          jobstate_name(JOB_QUEUED),
                          prio,
                          clock_format(when, clock_wall_ms()),
                          digest,
                          life,
                          STORE_EVENTS,
                          tags ? tags : "",
                          jsonx_string_at(spec, "note"),
                          owner ? owner : ""};
    redisReply *r = store_script(s, &create_script, idem[0] ? 7 : 6, keys, 12, args, NULL, e);
    rc = r ? store_created(r, "job", id, e) : store_failed(e);
    freeReplyObject(r);
    free(tags);
    free(text);
    return rc;
}

/* ---- states ---------------------------------------------------------------------------------- */

static const char *flag(bool on)
{
    return on ? "1" : "0";
}

static struct script transition_script = {.text = LUA_SCORE LUA_JOB_EVENT LUA_JOB_TRANSITION};

int store_job_transition(struct store *s, const char *id, enum job_state from, enum job_state to,
                         const json_t *error, struct err *e)
{
    char job[STORE_KEY], before[STORE_KEY], after[STORE_KEY], when[32];
    int rc = key_of_job(job, KEY_JOB, id, e);
    if (rc < 0) {
        return rc;
    }
    if (!jobstate_allowed(from, to)) {
        return err_set(e, ERR_CONFLICT, "job '%s' cannot go from %s to %s", id, jobstate_name(from),
                       jobstate_name(to));
    }
    char *text =
        error && !json_is_null(error) ? store_dump(error, "the job's error", e) : strdup("");
    if (!text) {
        return store_failed(e);
    }
    key_named(before, KEY_STATE, jobstate_name(from), NULL);
    key_named(after, KEY_STATE, jobstate_name(to), NULL);
    const char *keys[] = {job, key_text(KEY_QUEUE), key_text(KEY_EVENTS), before, after};
    const char *args[] = {id,
                          jobstate_name(from),
                          jobstate_name(to),
                          clock_format(when, clock_wall_ms()),
                          text,
                          flag(to == JOB_RUNNING),
                          flag(jobstate_ended(to)),
                          flag(to == JOB_RUNNING || to == JOB_SUCCEEDED || to == JOB_CANCELLED),
                          flag(to == JOB_QUEUED),
                          STORE_EVENTS};
    redisReply *r = store_script(s, &transition_script, 5, keys, 10, args, NULL, e);
    free(text);
    if (!r) {
        return store_failed(e);
    }
    const char *was = NULL;
    rc = reply_text(r, &was, NULL, e);
    if (rc == 0) {
        rc = store_no_job(id, e);
    } else if (rc > 0) {
        rc = !strcmp(was, jobstate_name(from))
                 ? 0
                 : err_set(e, ERR_CONFLICT, "job '%s' cannot go from %s to %s: its state is %s", id,
                           jobstate_name(from), jobstate_name(to), was);
    }
    freeReplyObject(r);
    return rc;
}

int store_job_state(struct store *s, const char *id, enum job_state *out, struct err *e)
{
    err_clear(e);
    char *text = store_job_field(s, id, "state", e);
    if (!text) {
        return e && e->code ? -(int)e->code : store_no_job(id, e);
    }
    int found = jobstate_find(text);
    free(text);
    if (found < 0) {
        return err_set(e, ERR_DATA, "job '%s' has a state that is not known", id);
    }
    *out = (enum job_state)found;
    return 0;
}

/* The state to which a request leads from a state. The same state: there is nothing to do. -1: it
 * is refused, with the reason. */
static int next_state(const char *what, enum job_state now, const char **reason)
{
    if (!strcmp(what, "cancel")) {
        *reason = "only one that has not ended can be cancelled";
        return jobstate_ended(now) ? (now == JOB_CANCELLED ? JOB_CANCELLED : -1)
               : now == JOB_PAUSED ? JOB_CANCELLED
                                   : JOB_CANCELLING;
    }
    if (!strcmp(what, "pause")) {
        *reason = "only a running one can be paused";
        return now == JOB_RUNNING                        ? JOB_PAUSING
               : now == JOB_PAUSING || now == JOB_PAUSED ? (int)now
                                                         : -1;
    }
    *reason = now == JOB_PAUSING ? "it is not paused yet" : "only a paused one can be resumed";
    return now == JOB_PAUSED ? JOB_QUEUED : -1;
}

int store_job_request(struct store *s, const char *id, const char *what, struct err *e)
{
    if (strcmp(what, "cancel") && strcmp(what, "pause") && strcmp(what, "resume")) {
        return err_set(e, ERR_INVALID,
                       "a job can be asked to cancel, pause or resume, not to '%.40s'", what);
    }
    int rc = 0;
    for (int attempt = 0; attempt < 8; attempt++) { /* the state may change between reading and
                                                       moving it */
        enum job_state now;
        if ((rc = store_job_state(s, id, &now, e)) < 0) {
            return rc;
        }
        const char *reason = "";
        int to = next_state(what, now, &reason);
        if (to < 0) {
            return err_set(e, ERR_CONFLICT, "cannot %s job '%s': its state is %s, and %s", what, id,
                           jobstate_name(now), reason);
        }
        if (to == (int)now) {
            return 0;
        }
        rc = store_job_transition(s, id, now, (enum job_state)to, NULL, e);
        if (rc != -ERR_CONFLICT) {
            return rc;
        }
    }
    return rc;
}

/* ---- deleting, changing ---------------------------------------------------------------------- */

static struct script delete_script = {.text = LUA_JOB_VERSION LUA_JOB_DELETE};

/* The states in which a job may be deleted, each between spaces. */
static void ended_states(char *out, size_t n)
{
    snprintf(out, n, " ");
    for (int i = 0; i < JOB_STATE_COUNT; i++) {
        if (jobstate_ended((enum job_state)i)) {
            size_t at = strlen(out);
            snprintf(out + at, n - at, "%s ", jobstate_name((enum job_state)i));
        }
    }
}

/* Deletes every key of a job that keys.def names. */
static redisReply *delete_keys(struct store *s, const char *id, const char *seen, struct err *e)
{
    char of_job[KEY_COUNT][STORE_KEY], states[STORE_KEY], ended[256], ranks[16];
    const char *keys[3 + KEY_COUNT] = {key_text(KEY_JOBS), key_text(KEY_QUEUE),
                                       key_text(KEY_EVENTS)};
    const char *args[6 + KEY_COUNT] = {id, STORE_EVENTS, states, ended, ranks, seen ? seen : ""};
    int n_keys = 3, n_args = 6;
    key_prefix(states, KEY_STATE);
    ended_states(ended, sizeof ended);
    snprintf(ranks, sizeof ranks, "%d", STORE_RANKS);
    for (int k = 0; k < KEY_COUNT; k++) {
        enum key_group group = store_keys[k].group;
        if (group != KEYS_JOB && group != KEYS_RANK) {
            continue;
        }
        if (key_of_job(of_job[k], (enum store_key)k, id, e) < 0) {
            return NULL;
        }
        if (group == KEYS_RANK) {
            args[n_args++] = of_job[k];
        } else {
            keys[n_keys++] = of_job[k];
        }
    }
    return store_script(s, &delete_script, n_keys, keys, n_args, args, NULL, e);
}

int store_job_delete(struct store *s, const char *id, const char *seen, struct err *e)
{
    int rc;
    redisReply *r = delete_keys(s, id, seen, e);
    if (!r) {
        return store_failed(e);
    }
    const char *was = NULL;
    rc = reply_text(r, &was, NULL, e);
    if (rc == 0) {
        rc = store_no_job(id, e);
    } else if (rc > 0 && !strcmp(was, "seen")) {
        rc = JOB_WAS_ANOTHER;
    } else if (rc > 0) {
        int state = jobstate_find(was);
        rc = 0;
        if (state < 0 || !jobstate_ended((enum job_state)state)) {
            rc = err_set(e, ERR_CONFLICT, "cannot delete job '%s': its state is %s", id, was);
            err_hint(e, "cancel it first");
        }
    }
    freeReplyObject(r);
    return rc;
}

static struct script change_script = {.text =
                                          LUA_SCORE LUA_JOB_EVENT LUA_JOB_VERSION LUA_JOB_CHANGE};

/* Turns the script's answer into a result; frees `r`. */
static int changed(const char *id, redisReply *r, struct err *e)
{
    if (r && r->type == REDIS_REPLY_STRING) {
        int rc = err_set(e, ERR_CONFLICT, "cannot change the priority of job '%s': its state is %s",
                         id, r->str);
        err_hint(e,
                 "a job that has ended is not scheduled again; submit it again with that "
                 "priority");
        freeReplyObject(r);
        return rc;
    }
    bool differs = r && r->type == REDIS_REPLY_INTEGER && r->integer < 0;
    int rc = store_did(id, r, e);
    return differs ? JOB_WAS_ANOTHER : rc;
}

int store_job_change(struct store *s, const char *id, const struct job_change *change,
                     const char *seen, struct err *e)
{
    char job[STORE_KEY], prio[16], ended[256], *tags = NULL;
    int rc = key_of_job(job, KEY_JOB, id, e), n = 5;
    if (rc < 0 || (change->priority && (rc = check_priority(*change->priority, e)) < 0)) {
        return rc;
    }
    if (change->tags && !(tags = store_dump(change->tags, "the job's tags", e))) {
        return store_failed(e);
    }
    const char *keys[] = {job, key_text(KEY_QUEUE), key_text(KEY_EVENTS)};
    ended_states(ended, sizeof ended);
    const char *args[11] = {id, jobstate_name(JOB_QUEUED), STORE_EVENTS, seen ? seen : "", ended};
    if (change->priority) {
        snprintf(prio, sizeof prio, "%d", *change->priority);
        args[n++] = "priority";
        args[n++] = prio;
    }
    if (tags) {
        args[n++] = "tags";
        args[n++] = json_array_size(change->tags) ? tags : "";
    }
    if (change->note) {
        const char *note = json_string_value(change->note);
        args[n++] = "note";
        args[n++] = note ? note : "";
    }
    redisReply *r = store_script(s, &change_script, 3, keys, n, args, NULL, e);
    free(tags);
    return changed(id, r, e);
}

/* Jobs in the store: created, moved along the arrows of job/state.c, deleted.
 *
 * Every change of a state is one Lua script: it compares the state with what the caller saw, writes
 * the fields, moves the id between the indexes and publishes the event, all or nothing. Two
 * schedulers, or a scheduler and a user, can therefore both try; one of them gets ERR_CONFLICT.
 * Fields and documents are in documents.c, reading as JSON in jobs_view.c; keys:
 * docs/store-schema.md.
 */
#include "store/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/hex.h"
#include "common/jsonx.h"

/* The place in the queue: priority first, then the order of creation. Exact in a double: 1e5 · 1e10
 * < 2^53. */
#define LUA_SCORE \
    "local function score(priority, number) return string.format('%.0f', number - priority * 1e10) end\n"
/* The event that browsers get when a job changes. */
#define LUA_EVENT                                                                                                          \
    "local function event(events, kind, job, id, from, to)\n"                                                              \
    "  local f = redis.call('HMGET', job, 'name', 'attempt', 'error', 'priority')\n"                                       \
    "  local j = '{\"id\":' .. cjson.encode(id) .. ',\"name\":' .. cjson.encode(f[1] or '') .. ',\"from\":' .. from .. \n" \
    "    ',\"state\":\"' .. to .. '\",\"attempt\":' .. (f[2] or '0') .. ',\"priority\":' .. (f[4] or '0') ..\n"            \
    "    ',\"error\":' .. (f[3] or 'null') .. '}'\n"                                                                       \
    "  redis.call('XADD', events, 'MAXLEN', '~', 20000, '*', 'job', id, 'type', kind, 'j', j)\n"                           \
    "end\n"

/* ---- creating -------------------------------------------------------------------------------- */

/* KEYS job jobs queue state:queued events number idempotency; ARGV id spec name priority created
 * digest lifetime. Gives {0, id}; {1, id} for a key that was used with this spec; {2, id} for one
 * used with another; {3} if the id is taken. */
static struct script create_script = {
    .text = LUA_SCORE LUA_EVENT
    "if KEYS[7] then\n"
    "  local old = redis.call('GET', KEYS[7])\n"
    "  if old then\n"
    "    local id, digest = string.match(old, '^(%S+) (%S+)$')\n"
    "    if digest == ARGV[6] then return {1, id} end\n"
    "    return {2, id or ''}\n"
    "  end\n"
    "end\n"
    "if redis.call('EXISTS', KEYS[1]) == 1 then return {3, ''} end\n"
    "if KEYS[7] then redis.call('SET', KEYS[7], ARGV[1] .. ' ' .. ARGV[6], 'NX', 'EX', ARGV[7]) end\n"
    "local number = redis.call('INCR', KEYS[6])\n"
    "redis.call('HSET', KEYS[1], 'spec', ARGV[2], 'name', ARGV[3], 'state', 'queued', 'attempt', 0, 'restarts', 0,\n"
    "  'priority', ARGV[4], 'created', ARGV[5], 'number', number)\n"
    "if KEYS[7] then redis.call('HSET', KEYS[1], 'idempotency', KEYS[7]) end\n"
    "redis.call('ZADD', KEYS[2], number, ARGV[1])\n"
    "redis.call('ZADD', KEYS[3], score(tonumber(ARGV[4]), number), ARGV[1])\n"
    "redis.call('ZADD', KEYS[4], number, ARGV[1])\n"
    "event(KEYS[5], 'job', KEYS[1], ARGV[1], 'null', 'queued')\n"
    "return {0, ARGV[1]}\n",
};

static int random_id(char id[STORE_ID], struct err *e)
{
    unsigned char bytes[8];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return err_errno(e, ERR_INTERNAL, "cannot make a job's id");
    }
    hex_of(id, bytes, sizeof bytes);
    return 0;
}

/* The digest does not depend on the order of keys. */
static int spec_digest(const json_t *spec, char out[65], struct err *e)
{
    char *text = json_dumps(spec, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text) {
        return err_set(e, ERR_INTERNAL, "cannot queue the job: its spec is no JSON document");
    }
    store_hex_sha256(text, strlen(text), out);
    free(text);
    return 0;
}

static int created(const redisReply *r, const char *key, char id[STORE_ID], struct err *e)
{
    int64_t how = 0;
    const char *given = "";
    if (reply_array(r, 2, e) < 2 || reply_int(r->element[0], &how, e) < 0 ||
        reply_text(r->element[1], &given, NULL, e) < 0) {
        return err_set(e, ERR_DATA, "the store answered strangely when a job was queued");
    }
    if (how == 2) {
        return err_set(e, ERR_CONFLICT,
                       "the idempotency key '%.80s' was used for job '%s' with another spec",
                       key ? key : "", given);
    }
    if (how == 3) {
        return err_set(e, ERR_INTERNAL, "cannot queue the job: its random id is taken");
    }
    snprintf(id, STORE_ID, "%s", given);
    return (int)how;
}

int store_job_create(struct store *s, const json_t *spec, int priority, const char *idempotency_key,
                     char id[STORE_ID], struct err *e)
{
    char job[STORE_KEY], idem[STORE_KEY] = "", fresh[STORE_ID], digest[65], when[32], prio[16],
                         life[16], hash[65];
    if (priority < -STORE_PRIORITY || priority > STORE_PRIORITY) {
        return err_set(e, ERR_INVALID, "the priority %d is not within %d and %d", priority,
                       -STORE_PRIORITY, STORE_PRIORITY);
    }
    int rc = random_id(fresh, e);
    if (rc < 0 || (rc = store_job_key(job, fresh, "", e)) < 0 ||
        (rc = spec_digest(spec, digest, e)) < 0) {
        return rc;
    }
    if (idempotency_key && idempotency_key[0]) {
        store_hex_sha256(idempotency_key, strlen(idempotency_key), hash);
        snprintf(idem, sizeof idem, "es:idempotency:%s", hash);
    }
    char *text = store_dump(spec, "the job's spec", e);
    if (!text) {
        return -(e ? (int)e->code : ERR_INTERNAL);
    }
    const char *name = json_string_value(json_object_get(spec, "name"));
    snprintf(prio, sizeof prio, "%d", priority);
    snprintf(life, sizeof life, "%d", STORE_IDEMPOTENCY_S);
    const char *keys[] = {job,         "es:jobs",        "es:queue", "es:state:queued",
                          "es:events", "es:jobs:number", idem};
    const char *args[] = {fresh,  text, name ? name : "", prio, clock_format(when, clock_wall_ms()),
                          digest, life};
    redisReply *r = store_script(s, &create_script, idem[0] ? 7 : 6, keys, 7, args, NULL, e);
    rc = r ? created(r, idempotency_key, id, e) : store_failed(e);
    if (r) {
        freeReplyObject(r);
    }
    free(text);
    return rc;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* KEYS job queue events state:from state:to; ARGV id from to now error ended. Gives the state
 * before, or nil. */
static struct script transition_script = {
    .text = LUA_SCORE LUA_EVENT
    "local f = redis.call('HMGET', KEYS[1], 'state', 'number', 'priority')\n"
    "if not f[1] then return false end\n"
    "if f[1] ~= ARGV[2] then return f[1] end\n"
    "local to, number = ARGV[3], tonumber(f[2] or '0')\n"
    "redis.call('HSET', KEYS[1], 'state', to)\n"
    "if to == 'running' then redis.call('HSETNX', KEYS[1], 'started', ARGV[4]) end\n"
    "if ARGV[6] == '1' then redis.call('HSET', KEYS[1], 'finished', ARGV[4]) end\n"
    "if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'error', ARGV[5])\n"
    "elseif to == 'running' or to == 'succeeded' or to == 'cancelled' then redis.call('HDEL', KEYS[1], 'error') end\n"
    "redis.call('ZREM', KEYS[4], ARGV[1])\n"
    "redis.call('ZADD', KEYS[5], number, ARGV[1])\n"
    "if to == 'queued' then redis.call('ZADD', KEYS[2], score(tonumber(f[3] or '0'), number), ARGV[1])\n"
    "else redis.call('ZREM', KEYS[2], ARGV[1]) end\n"
    "event(KEYS[3], 'job', KEYS[1], ARGV[1], '\"' .. f[1] .. '\"', to)\n"
    "return f[1]\n",
};

int store_job_transition(struct store *s, const char *id, enum job_state from, enum job_state to,
                         const json_t *error, struct err *e)
{
    char job[STORE_KEY], before[64], after[64], when[32];
    int rc = store_job_key(job, id, "", e);
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
        return -(e ? (int)e->code : ERR_MEMORY);
    }
    snprintf(before, sizeof before, "es:state:%s", jobstate_name(from));
    snprintf(after, sizeof after, "es:state:%s", jobstate_name(to));
    const char *keys[] = {job, "es:queue", "es:events", before, after};
    const char *args[] = {
        id,   jobstate_name(from),           jobstate_name(to), clock_format(when, clock_wall_ms()),
        text, jobstate_ended(to) ? "1" : "0"};
    redisReply *r = store_script(s, &transition_script, 5, keys, 6, args, NULL, e);
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
                 : err_set(e, ERR_CONFLICT, "job '%s' cannot go from %s to %s: it is %s", id,
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

/* What a request means in a state: the next state, the same state (nothing to do), or -1 and the
 * reason why not. */
static int next_state(const char *what, enum job_state now, const char **reason)
{
    if (!strcmp(what, "cancel")) {
        *reason = "it has ended already";
        return jobstate_ended(now) ? (now == JOB_CANCELLED ? JOB_CANCELLED : -1)
               : now == JOB_PAUSED ? JOB_CANCELLED
                                   : JOB_CANCELLING;
    }
    if (!strcmp(what, "pause")) {
        *reason = "only a running job can be paused";
        return now == JOB_RUNNING                        ? JOB_PAUSING
               : now == JOB_PAUSING || now == JOB_PAUSED ? (int)now
                                                         : -1;
    }
    *reason = now == JOB_PAUSING ? "it is still pausing" : "only a paused job can be resumed";
    return now == JOB_PAUSED ? JOB_QUEUED : -1;
}

int store_job_request(struct store *s, const char *id, const char *what, struct err *e)
{
    if (strcmp(what, "cancel") && strcmp(what, "pause") && strcmp(what, "resume")) {
        return err_set(e, ERR_INVALID,
                       "a job can be asked to cancel, pause or resume, not to '%.40s'", what);
    }
    int rc = 0;
    for (int attempt = 0; attempt < 8; attempt++) { /* the state may change between look and try */
        enum job_state now;
        if ((rc = store_job_state(s, id, &now, e)) < 0) {
            return rc;
        }
        const char *reason = "";
        int to = next_state(what, now, &reason);
        if (to < 0) {
            return err_set(e, ERR_CONFLICT, "cannot %s job '%s': it is %s, and %s", what, id,
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

/* ---- deleting, priority ---------------------------------------------------------------------- */

/* KEYS job jobs queue events; ARGV id ranks. Gives the state; only an ended job is deleted. */
static struct script delete_script = {
    .text =
        "local f = redis.call('HMGET', KEYS[1], 'state', 'idempotency', 'name')\n"
        "local state = f[1]\n"
        "if not state then return false end\n"
        "if state ~= 'succeeded' and state ~= 'failed' and state ~= 'cancelled' then return state end\n"
        "if f[2] then redis.call('DEL', f[2]) end\n"
        "redis.call('UNLINK', KEYS[1], KEYS[1] .. ':live', KEYS[1] .. ':detail', KEYS[1] .. ':assign', KEYS[1] .. ':plan',\n"
        "  KEYS[1] .. ':control', KEYS[1] .. ':beats', KEYS[1] .. ':facts')\n"
        "for at = 0, tonumber(ARGV[2]) - 1, 512 do\n"
        "  local rows = {}\n"
        "  for r = at, at + 511 do rows[#rows + 1] = KEYS[1] .. ':rows:' .. r end\n"
        "  redis.call('UNLINK', unpack(rows))\n"
        "end\n"
        "redis.call('ZREM', KEYS[2], ARGV[1])\n"
        "redis.call('ZREM', KEYS[3], ARGV[1])\n"
        "redis.call('ZREM', 'es:state:' .. state, ARGV[1])\n"
        "redis.call('XADD', KEYS[4], 'MAXLEN', '~', 20000, '*', 'job', ARGV[1], 'type', 'deleted', 'j', '{\"id\":' .. cjson.encode(ARGV[1]) .. '}')\n"
        "return state\n",
};

int store_job_delete(struct store *s, const char *id, struct err *e)
{
    char job[STORE_KEY], ranks[16];
    int rc = store_job_key(job, id, "", e);
    if (rc < 0) {
        return rc;
    }
    snprintf(ranks, sizeof ranks, "%d", STORE_RANKS);
    const char *keys[] = {job, "es:jobs", "es:queue", "es:events"};
    const char *args[] = {id, ranks};
    redisReply *r = store_script(s, &delete_script, 4, keys, 2, args, NULL, e);
    if (!r) {
        return store_failed(e);
    }
    const char *was = NULL;
    rc = reply_text(r, &was, NULL, e);
    if (rc == 0) {
        rc = store_no_job(id, e);
    } else if (rc > 0) {
        int state = jobstate_find(was);
        rc = 0;
        if (state < 0 || !jobstate_ended((enum job_state)state)) {
            rc = err_set(e, ERR_CONFLICT, "cannot delete job '%s': it is %s", id, was);
            err_hint(e, "cancel it first");
        }
    }
    freeReplyObject(r);
    return rc;
}

/* KEYS job queue events; ARGV id priority. 1, or 0 if there is no such job. */
static struct script priority_script = {
    .text = LUA_SCORE LUA_EVENT
    "local f = redis.call('HMGET', KEYS[1], 'state', 'number')\n"
    "if not f[1] then return 0 end\n"
    "redis.call('HSET', KEYS[1], 'priority', ARGV[2])\n"
    "if f[1] == 'queued' then redis.call('ZADD', KEYS[2], score(tonumber(ARGV[2]), tonumber(f[2])), ARGV[1]) end\n"
    "event(KEYS[3], 'job', KEYS[1], ARGV[1], '\"' .. f[1] .. '\"', f[1])\n"
    "return 1\n",
};

int store_job_set_priority(struct store *s, const char *id, int priority, struct err *e)
{
    char job[STORE_KEY], prio[16];
    int rc = store_job_key(job, id, "", e);
    if (rc < 0) {
        return rc;
    }
    if (priority < -STORE_PRIORITY || priority > STORE_PRIORITY) {
        return err_set(e, ERR_INVALID, "the priority %d is not within %d and %d", priority,
                       -STORE_PRIORITY, STORE_PRIORITY);
    }
    snprintf(prio, sizeof prio, "%d", priority);
    const char *keys[] = {job, "es:queue", "es:events"};
    const char *args[] = {id, prio};
    return store_did(id, store_script(s, &priority_script, 3, keys, 2, args, NULL, e), e);
}

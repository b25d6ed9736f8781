/* The queue: which queued jobs start now, and on which nodes (see scheduler.h for the turn around
 * it).
 *
 *   in order of priority, then age:   job A (2 of 4 nodes free)  waits ─┐ its nodes are kept from jobs of lower priority,
 *                                     job B (1 node)             starts │ and after a minute from everybody behind it
 *
 * What a newcomer would get wrong: a job that waits for busy nodes does not hold up smaller ones
 * behind it, but if that went on for ever it would starve. And of a long queue only a part is
 * looked at in one turn: its head each time, the rest in windows that move on, so that a hundred
 * jobs that wait for a missing node do not hide the one that could run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/run.h"

enum { QUEUE_LOOKED_AT = 64 };
static const double queue_seconds = 5, patience_seconds = 60;

/* Why the job waits, in its field "waiting": written only when it changes. */
static void say_waiting(struct sched *s, const char *job, const char *why)
{
    char *old = store_job_field(s->store, job, "waiting", NULL);
    if (!old || strcmp(old, why) != 0) {
        char quoted[300];
        store_job_set(s->store, job, "waiting", why, NULL);
        log_info("sched", "waits", "job=%s why=%s", job, log_quote(quoted, sizeof quoted, why));
    }
    free(old);
}

/* Seconds for which it has been seen waiting in this queue. */
static double waited(struct sched *s, const char *job, double now)
{
    json_t *since = json_object_get(s->waiting_since, job);
    if (!since) {
        json_object_set_new(s->waiting_since, job, json_real(now));
    }
    return since ? now - json_real_value(since) : 0;
}

/* Who is not in the queue any more does not wait. */
static void forget_waiting(struct sched *s, const json_t *ids)
{
    json_t *kept = json_object(), *id;
    size_t i;
    json_array_foreach(ids, i, id) {
        json_t *since = json_object_get(s->waiting_since, json_string_value(id));
        if (since) {
            json_object_set(kept, json_string_value(id), since);
        }
    }
    json_decref(s->waiting_since);
    s->waiting_since = kept;
}

static int virtual_running(const struct sched *s)
{
    int n = 0;
    for (const struct run *r = s->runs; r; r = r->next) {
        n += r->launcher == s->simulator;
    }
    return n;
}

struct queue_state {
    json_t *nodes;
    json_t *reserved; /* names kept for jobs ahead that have waited long */
    json_t *wanted;   /* array of {"priority", "nodes"}: what jobs ahead wait for */
};

/* Everything a job of this priority must leave alone. */
static json_t *reserved_for(const struct queue_state *q, int priority)
{
    json_t *out = json_copy(q->reserved), *ahead;
    size_t i;
    json_array_foreach(q->wanted, i, ahead) {
        if (json_integer_value(json_object_get(ahead, "priority")) > priority) {
            json_object_update(out, json_object_get(ahead, "nodes"));
        }
    }
    return out;
}

/* A spec that can never run fails; it cannot be repaired in the queue. */
static void fail_queued(struct sched *s, const char *job, const struct err *why)
{
    char quoted[600];
    json_t *error = sched_error(err_name(why->code), why->message, -1, NULL, 0);
    store_job_transition(s->store, job, JOB_QUEUED, JOB_FAILED, error, NULL);
    json_decref(error);
    log_warn("sched", "can never run", "job=%s why=%s", job,
             log_quote(quoted, sizeof quoted, why->message));
}

static void free_spec(struct jobspec *spec)
{
    jobspec_release(spec);
    free(spec);
}

/* Takes the spec over, as start_real does. */
static int start_virtual(struct sched *s, const char *job, struct jobspec *spec, double now,
                         struct err *e)
{
    struct placement none = {0};
    if (s->simulator && virtual_running(s) < s->virtual_jobs) {
        return launch_job(s, job, spec, &none, now, e);
    }
    if (s->simulator) {
        say_waiting(s, job, "as many virtual jobs as are allowed run already");
    } else {
        struct err why = {0};
        err_set(&why, ERR_UNSUPPORTED,
                "cannot run a virtual job: this coordinator has no evenstep-simulate");
        fail_queued(s, job, &why);
    }
    free_spec(spec);
    return 0;
}

static void wait_for_nodes(struct sched *s, const char *job, const struct jobspec *spec,
                           const struct placement_ask *ask, const char *why, struct queue_state *q,
                           double now)
{
    json_t *nodes = json_object();
    say_waiting(s, job, why);
    placement_reserve(nodes, ask);
    if (waited(s, job, now) > patience_seconds) {
        json_object_update(q->reserved, nodes);
    }
    json_array_append_new(q->wanted,
                          json_pack("{s:i, s:o}", "priority", spec->priority, "nodes", nodes));
}

static int start_real(struct sched *s, const char *job, struct jobspec *spec, struct queue_state *q,
                      double now, struct err *e)
{
    char *attempt = store_job_field(s->store, job, "attempt", e);
    json_t *reserved = reserved_for(q, spec->priority);
    struct placement_ask ask = {.nodes = q->nodes,
                                .local_host = s->local_host[0] ? s->local_host : NULL,
                                .spec = spec,
                                .attempt = (attempt ? (int)strtol(attempt, NULL, 10) : 0) + 1,
                                .reserved = reserved};
    struct placement placement;
    int rc = 0;
    if (placement_find(&placement, &ask)) {
        rc = launch_job(s, job, spec, &placement, now, e);
    } else {
        wait_for_nodes(s, job, spec, &ask, placement.waiting, q, now);
        free_spec(spec);
    }
    free(attempt);
    placement_release(&placement);
    json_decref(reserved);
    return rc;
}

/* The spec's priority is what was asked at submission; PATCH changes the job's. */
static void current_priority(struct sched *s, const char *job, struct jobspec *spec)
{
    char *text = store_job_field(s->store, job, "priority", NULL);
    if (text) {
        spec->priority = (int)strtol(text, NULL, 10);
    }
    free(text);
}

static int try_start(struct sched *s, const char *job, struct queue_state *q, double now,
                     struct err *e)
{
    if (run_find(s, job)) {
        return 0; /* its last attempt has still to give back its nodes */
    }
    struct jobspec *spec = sched_read_spec(s, job, e);
    if (spec) {
        current_priority(s, job, spec);
        return spec->cluster ? start_virtual(s, job, spec, now, e)
                             : start_real(s, job, spec, q, now, e);
    }
    if (!sched_is_away(e)) {
        fail_queued(s, job, e);
    }
    return -(int)e->code;
}

/* Names, states and users of the nodes, and the queue: as long as they stay the same, so does the
 * answer. */
static char *look(const json_t *nodes, const json_t *ids, int runs)
{
    json_t *seen = json_array(), *node;
    size_t i;
    json_array_foreach(nodes, i, node) {
        json_array_append(seen, json_object_get(node, "name"));
        json_array_append(seen, json_object_get(node, "state"));
        json_array_append(seen, json_object_get(node, "job"));
    }
    json_array_append(seen, (json_t *)ids);
    json_array_append_new(seen, json_integer(runs));
    char *text = json_dumps(seen, JSON_COMPACT);
    json_decref(seen);
    return text;
}

/* The head of the queue, and the window of the rest whose turn it is. */
static bool is_due(const struct sched *s, size_t i, size_t n)
{
    if (i < QUEUE_LOOKED_AT || n <= (size_t)2 * QUEUE_LOOKED_AT) {
        return true;
    }
    size_t rest = n - QUEUE_LOOKED_AT,
           place = (i - QUEUE_LOOKED_AT + rest - s->queue_from % rest) % rest;
    return place < QUEUE_LOOKED_AT;
}

static int look_at_all(struct sched *s, const json_t *ids, struct queue_state *q, double now,
                       struct err *e)
{
    size_t i, n = json_array_size(ids);
    json_t *id;
    json_array_foreach(ids, i, id) {
        int before = s->n_runs;
        if (!is_due(s, i, n)) {
            continue;
        }
        if (try_start(s, json_string_value(id), q, now, e) < 0 && sched_is_away(e)) {
            return -(int)e->code;
        }
        err_clear(e);
        if (s->n_runs != before) { /* nodes were taken */
            json_decref(q->nodes);
            q->nodes = store_nodes(s->store, e);
        }
        if (!q->nodes) {
            return -(int)e->code;
        }
    }
    s->queue_from += QUEUE_LOOKED_AT;
    return 0;
}

int queue_tick(struct sched *s, double now, struct err *e)
{
    json_t *ids = s->look ? json_incref(json_object_get(s->look, "queued"))
                          : store_job_ids(s->store, JOB_QUEUED, e);
    if (!ids) {
        return -(int)e->code;
    }
    forget_waiting(s, ids);
    if (json_array_size(ids) == 0) {
        json_decref(ids);
        return 0;
    }
    struct queue_state q = {store_nodes(s->store, e), json_object(), json_array()};
    int rc = q.nodes ? 0 : -(int)e->code;
    char *seen = q.nodes ? look(q.nodes, ids, s->n_runs) : NULL;
    bool same = seen && s->queue_seen && strcmp(seen, s->queue_seen) == 0;
    if (rc == 0 && (!same || now - s->queue_at >= queue_seconds)) {
        s->queue_at = now;
        rc = look_at_all(s, ids, &q, now, e);
        free(s->queue_seen);
        s->queue_seen = rc == 0 ? seen : NULL;
        seen = rc == 0 ? NULL : seen;
    }
    free(seen);
    json_decref(q.nodes);
    json_decref(q.reserved);
    json_decref(q.wanted);
    json_decref(ids);
    return rc;
}

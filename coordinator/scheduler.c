/* The scheduler's turn: see scheduler.h. Here is the queue; run.c has what is running, launch.c how an attempt starts.
 *
 * What a newcomer would get wrong: the queue is strict in what it may take, not in what it may start. A job that waits for busy nodes
 * does not hold up smaller ones behind it, unless it has a higher priority or has waited for a minute: then its nodes are
 * kept for it, or it would wait for ever.
 */
#include "coordinator/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "coordinator/recover.h"
#include "coordinator/run.h"

enum { QUEUE_LOOKED_AT = 64 };
static const double sweep_seconds = 5, queue_seconds = 5, patience_seconds = 60, grace_seconds = 10, stall_seconds = 2;

struct sched *sched_new(const struct sched_config *c, struct err *e)
{
    struct sched *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot open the scheduler: memory ran out");
        return NULL;
    }
    s->store = c->store;
    snprintf(s->data_dir, sizeof s->data_dir, "%s", c->data_dir);
    snprintf(s->roots, sizeof s->roots, "%s", c->roots ? c->roots : "");
    snprintf(s->local_host, sizeof s->local_host, "%s", c->local_host ? c->local_host : "");
    s->virtual_jobs = c->virtual_jobs > 0 ? c->virtual_jobs : 1;
    s->mpirun = c->mpirun;
    s->simulator = c->simulator;
    s->sweep_at = s->queue_at = s->last_tick = -1e18;
    return s;
}

void sched_free(struct sched *s)
{
    while (s && s->runs) {
        struct run *r = s->runs;
        s->runs = r->next;
        run_free(r);
    }
    if (s) {
        free(s->queue_seen);
    }
    free(s);
}

int sched_running(const struct sched *s)
{
    return s->n_runs;
}

struct run *run_find(const struct sched *s, const char *job)
{
    struct run *r = s->runs;
    while (r && strcmp(r->attempt.job, job) != 0) {
        r = r->next;
    }
    return r;
}

struct jobspec *sched_read_spec(struct sched *s, const char *job, struct err *e)
{
    char *text = store_job_field(s->store, job, "spec", e);
    struct jobspec *spec = text ? calloc(1, sizeof *spec) : NULL;
    json_t *j = spec ? jsonx_parse(text, strlen(text), e) : NULL;
    struct jsonx_problems problems = {0};
    free(text);
    if (j && jobspec_parse(spec, j, &problems) >= 0) {
        json_decref(j);
        jsonx_problems_release(&problems);
        return spec;
    }
    if (j) {
        err_set(e, ERR_INVALID, "the spec of job '%s' is not valid: %s %s", job, problems.count ? problems.items[0].pointer : "",
                problems.count ? problems.items[0].message : "");
    } else if (!e->code) {
        err_set(e, ERR_NOT_FOUND, "job '%s' has no spec", job);
    }
    jsonx_problems_release(&problems);
    json_decref(j);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    return NULL;
}

json_t *sched_error(const char *code, const char *message, int rank, const char *node, int attempt)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:i}", "code", code, "message", message, "rank", rank >= 0 ? json_integer(rank) : json_null(),
                     "node", node && node[0] ? json_string(node) : json_null(), "attempt", attempt);
}

/* ---- the queue ---------------------------------------------------------------------------------------------- */

/* Why the job waits, in its field "waiting": written only when it changes. */
static void say_waiting(struct sched *s, const char *job, const char *why)
{
    char *old = store_job_field(s->store, job, "waiting", NULL);
    if (!old || strcmp(old, why) != 0) {
        store_job_set(s->store, job, "waiting", why[0] ? why : NULL, NULL);
        if (why[0]) {
            char quoted[300];
            log_info("sched", "waits", "job=%s why=%s", job, log_quote(quoted, sizeof quoted, why));
        }
    }
    free(old);
}

static int virtual_running(const struct sched *s)
{
    int n = 0;
    for (const struct run *r = s->runs; r; r = r->next) {
        n += r->launcher == s->simulator;
    }
    return n;
}

/* Seconds since the job was created. */
static double age_of(struct sched *s, const char *job)
{
    char *created = store_job_field(s->store, job, "created", NULL);
    struct tm t = {0};
    double age = 0;
    if (created && strptime(created, "%Y-%m-%dT%H:%M:%S", &t)) {
        age = (double)clock_wall_ms() / 1000 - (double)timegm(&t);
    }
    free(created);
    return age;
}

struct queue_state {
    json_t *nodes;
    json_t *reserved;  /* names kept for jobs ahead that have waited long */
    json_t *wanted;    /* array of {"priority", "nodes"}: what jobs ahead wait for */
};

/* Everything a job of this priority must leave alone. */
static json_t *reserved_for(const struct queue_state *q, int priority)
{
    json_t *out = json_copy(q->reserved), *ahead;
    size_t i;
    json_array_foreach(q->wanted, i, ahead)
    {
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
    log_warn("sched", "can never run", "job=%s why=%s", job, log_quote(quoted, sizeof quoted, why->message));
}

static bool is_away(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT;
}

static int start_virtual(struct sched *s, const char *job, struct jobspec *spec, double now, struct err *e)
{
    if (!s->simulator) {
        return err_set(e, ERR_UNSUPPORTED, "cannot run a virtual job: this coordinator has no evenstep-simulate");
    }
    if (virtual_running(s) >= s->virtual_jobs) {
        say_waiting(s, job, "as many virtual jobs as are allowed run already");
        jobspec_release(spec);
        free(spec);
        return 0;
    }
    struct placement none = {0};
    return launch_job(s, job, spec, &none, now, e);
}

static int start_real(struct sched *s, const char *job, struct jobspec *spec, struct queue_state *q, double now, struct err *e)
{
    char *attempt = store_job_field(s->store, job, "attempt", e);
    json_t *reserved = reserved_for(q, spec->priority);
    struct placement_ask ask = {.nodes = q->nodes, .local_host = s->local_host[0] ? s->local_host : NULL, .spec = spec,
                                .attempt = (attempt ? (int)strtol(attempt, NULL, 10) : 0) + 1, .reserved = reserved};
    struct placement placement;
    int rc = placement_find(&placement, &ask);
    free(attempt);
    if (rc) {
        rc = launch_job(s, job, spec, &placement, now, e);
        spec = NULL;
    } else {
        say_waiting(s, job, placement.waiting);
        json_t *nodes = json_object();
        placement_reserve(nodes, &ask);
        if (age_of(s, job) > patience_seconds) {
            json_object_update(q->reserved, nodes);
        }
        json_array_append_new(q->wanted, json_pack("{s:i, s:o}", "priority", spec->priority, "nodes", nodes));
    }
    placement_release(&placement);
    json_decref(reserved);
    if (spec) {
        jobspec_release(spec);
        free(spec);
    }
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

static int try_start(struct sched *s, const char *job, struct queue_state *q, double now, struct err *e)
{
    struct jobspec *spec = sched_read_spec(s, job, e);
    if (!spec) {
        if (!is_away(e)) {
            fail_queued(s, job, e);
            err_clear(e);
            return 0;
        }
        return -(int)e->code;
    }
    current_priority(s, job, spec);
    int rc = spec->cluster ? start_virtual(s, job, spec, now, e) : start_real(s, job, spec, q, now, e);
    return rc;
}

/* Names, states and users of the nodes, and the queue: as long as they stay the same, so does the answer. */
static char *look(const json_t *nodes, const json_t *ids, int runs)
{
    struct json_t *seen = json_array(), *node;
    size_t i;
    json_array_foreach(nodes, i, node)
    {
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

static int tick_queue(struct sched *s, double now, struct err *e)
{
    json_t *ids = store_job_ids(s->store, JOB_QUEUED, e);
    if (!ids) {
        return -(int)e->code;
    }
    struct queue_state q = {json_array_size(ids) ? store_nodes(s->store, e) : NULL, json_object(), json_array()};
    int rc = json_array_size(ids) && !q.nodes ? -(int)e->code : 0;
    char *seen = rc == 0 ? look(q.nodes, ids, s->n_runs) : NULL;
    bool same = seen && s->queue_seen && strcmp(seen, s->queue_seen) == 0;
    if (rc == 0 && q.nodes && (!same || now - s->queue_at >= queue_seconds)) {
        s->queue_at = now;
        size_t i;
        json_t *id;
        json_array_foreach(ids, i, id)
        {
            if (i >= QUEUE_LOOKED_AT) {
                break;
            }
            int before = s->n_runs;
            rc = try_start(s, json_string_value(id), &q, now, e);
            if (rc < 0 && is_away(e)) {
                break;
            }
            if (s->n_runs != before) { /* nodes were taken */
                json_decref(q.nodes);
                q.nodes = store_nodes(s->store, e);
                if (!q.nodes) {
                    rc = -(int)e->code;
                    break;
                }
            }
            rc = 0;
            err_clear(e);
        }
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

/* ---- the turn ----------------------------------------------------------------------------------------------- */

static void drop_run(struct sched *s, struct run *gone)
{
    struct run **at = &s->runs;
    while (*at && *at != gone) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = gone->next;
        s->n_runs--;
    }
    run_free(gone);
    s->queue_at = -1e18;
}

static void tick_runs(struct sched *s, double now)
{
    for (struct run *r = s->runs, *next; r; r = next) {
        struct err e = {0};
        char quoted[600];
        next = r->next;
        int rc = run_tick(s, r, now, &e);
        if (rc > 0) {
            drop_run(s, r);
        } else if (rc < 0) {
            log_warn("sched", "a turn of a job failed, it is tried again", "job=%s why=%s", r->attempt.job,
                     log_quote(quoted, sizeof quoted, e.message));
        }
    }
}

static void give_grace(struct sched *s, double until)
{
    for (struct run *r = s->runs; r; r = r->next) {
        if (r->monitor) {
            monitor_grace(r->monitor, until);
        }
    }
}

/* Is the store there? When it comes back, or when this process itself had no CPU, ages of heartbeats mean nothing for a while. */
static bool check_store(struct sched *s, double now)
{
    struct err e = {0};
    bool away = store_ping(s->store, &e) < 0;
    if (away != s->store_away) {
        s->store_away = away;
        log_write(away ? LOG_WARN : LOG_INFO, "sched", away ? "the store is away; jobs go on" : "the store is back", "why=\"%s\"", e.message);
        if (!away) {
            give_grace(s, now + grace_seconds);
        }
    }
    if (s->last_tick > -1e17 && now - s->last_tick > stall_seconds) {
        give_grace(s, now + stall_seconds);
    }
    s->last_tick = now;
    return !away;
}

/* A job that was cancelled before it ran belongs to no run: it is swept at once. */
static bool has_orphan(struct sched *s)
{
    json_t *ids = store_job_ids(s->store, JOB_CANCELLING, NULL), *id;
    bool found = false;
    size_t i;
    json_array_foreach(ids, i, id)
    {
        found |= !run_find(s, json_string_value(id));
    }
    json_decref(ids);
    return found;
}

void sched_tick(struct sched *s, double now)
{
    struct err e = {0};
    char quoted[600];
    int rc = 0;
    if (!check_store(s, now)) {
        return;
    }
    if (!s->draining && (now - s->sweep_at >= sweep_seconds || has_orphan(s))) {
        rc = recover_jobs(s, now, &e);
        s->sweep_at = rc >= 0 ? now : s->sweep_at;
    }
    tick_runs(s, now);
    if (rc >= 0 && !s->draining) {
        rc = tick_queue(s, now, &e);
    }
    if (rc < 0) {
        log_warn("sched", "a turn failed, it is tried again", "why=%s", log_quote(quoted, sizeof quoted, e.message));
    }
}

void sched_drain(struct sched *s)
{
    s->draining = true;
}

void sched_abandon(struct sched *s)
{
    for (struct run *r = s->runs; r; r = r->next) {
        log_warn("sched", "ended without a checkpoint; it goes on from its last one", "job=%s", r->attempt.job);
        r->launcher->stop(r->launcher->ctx, &r->attempt, 1);
    }
}

/* The scheduler's turn: see scheduler.h. queue.c has what waits, run.c what is running, launch.c
 * how an attempt starts.
 *
 *   is the store there? ─► sweep: what nobody has in hand (recover.c) ─► a turn of each run ─► the queue
 *
 * What a newcomer would get wrong: nothing here may decide on what could not be seen. With the
 * store away nothing is done but to end what was seen to be cancelled; when it is back, ages of
 * heartbeats mean nothing for 10 s, and nodes look lost until they have reported again.
 */
#include "coordinator/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/recover.h"
#include "coordinator/run.h"

static const double sweep_seconds = 5, grace_seconds = 10, stall_seconds = 2, settle_seconds = 3,
                    complain_seconds = 30, leaving_seconds = 1, look_seconds = 0.5;

struct sched *sched_new(const struct sched_config *c, struct err *e)
{
    struct sched *s = calloc(1, sizeof *s);
    if (!s || !(s->waiting_since = json_object())) {
        free(s);
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
    s->sweep_at = s->queue_at = s->last_tick = s->quiet_until = -1e18;
    return s;
}

void sched_free(struct sched *s)
{
    if (!s) {
        return;
    }
    while (s->runs) {
        struct run *r = s->runs;
        s->runs = r->next;
        run_free(r);
    }
    json_decref(s->waiting_since);
    json_decref(s->look);
    free(s->queue_seen);
    free(s);
}

int sched_running(const struct sched *s)
{
    return s->n_runs;
}

bool sched_store_away(const struct sched *s)
{
    return s->store_away;
}

struct run *run_find(const struct sched *s, const char *job)
{
    struct run *r = s->runs;
    while (r && strcmp(r->attempt.job, job) != 0) {
        r = r->next;
    }
    return r;
}

bool sched_is_away(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT || e->code == ERR_MEMORY;
}

struct jobspec *sched_read_spec(struct sched *s, const char *job, struct err *e)
{
    char *text = store_job_field(s->store, job, "spec", e);
    struct jobspec *spec = text ? calloc(1, sizeof *spec) : NULL;
    json_t *j = spec ? jsonx_parse(text, strlen(text), e) : NULL;
    free(text);
    if (j && jobspec_read(spec, j, e) >= 0) {
        json_decref(j);
        return spec;
    }
    if (j) {
        err_prefix(e, "the spec of job '%s' is not valid", job);
    } else if (!e->code) {
        err_set(e, ERR_NOT_FOUND, "job '%s' has no spec", job);
    }
    json_decref(j);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    return NULL;
}

json_t *sched_error(const char *code, const char *message, int rank, const char *node, int attempt)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:i}", "code", code, "message", message, "rank",
                     rank >= 0 ? json_integer(rank) : json_null(), "node",
                     node && node[0] ? json_string(node) : json_null(), "attempt", attempt);
}

/* ---- the turn -------------------------------------------------------------------------------- */

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
    s->queue_at = -1e18; /* its job may be in it again */
    sched_woken(s);
}

/* The first failure is told, then one every half minute, with how many there were. */
static void complain(struct run *r, double now, const struct err *why)
{
    char quoted[600];
    r->failures++;
    if (r->failures == 1 || now - r->complained_at >= complain_seconds) {
        r->complained_at = now;
        log_warn("sched", "a turn of a job failed, it is tried again", "job=%s times=%d why=%s",
                 r->attempt.job, r->failures, log_quote(quoted, sizeof quoted, why->message));
    }
}

static void tick_runs(struct sched *s, double now)
{
    for (struct run *r = s->runs, *next; r; r = next) {
        struct err e = {0};
        next = r->next;
        int rc = run_tick(s, r, now, &e);
        if (rc > 0) {
            drop_run(s, r);
        } else if (rc < 0) {
            complain(r, now, &e);
            s->store_away |=
                e.code == ERR_UNAVAILABLE; /* it answered to begin with, and then no more */
        } else {
            r->failures = 0;
        }
    }
}

static bool uses(const json_t *plan, const char *node)
{
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(plan, "workers"), i, worker) {
        const char *name = json_string_value(json_object_get(worker, "node"));
        if (name && strcmp(name, node) == 0) {
            return true;
        }
    }
    return false;
}

/* Hosts that are about to stop say so in their nodes; attempts that use one give way. */
static void watch_leaving(struct sched *s, double now)
{
    if (!s->runs || now - s->leaving_at < leaving_seconds) {
        return;
    }
    json_t *nodes = store_nodes(s->store, NULL), *node;
    size_t i;
    s->leaving_at = now;
    json_array_foreach(nodes, i, node) {
        const char *name = json_string_value(json_object_get(node, "name"));
        for (struct run *r = json_is_true(json_object_get(node, "leaving")) ? s->runs : NULL;
             name && r; r = r->next) {
            if (!r->leaving && r->launcher == s->mpirun && uses(r->plan, name)) {
                r->leaving = true;
                log_info("sched", "a host of it leaves, it writes a checkpoint and is queued again",
                         "job=%s node=%s", r->attempt.job, name);
            }
        }
    }
    json_decref(nodes);
}

static void give_grace(struct sched *s, double until)
{
    for (struct run *r = s->runs; r; r = r->next) {
        if (r->monitor) {
            monitor_grace(r->monitor, until);
        }
    }
}

/* The queue, who is cancelled, and the state of each job in hand. They change by what we do
 * ourselves, and by requests, after which we are woken; so it is enough to look twice a second
 * otherwise. */
static int look_at_store(struct sched *s, double now, struct err *e)
{
    json_t *ids = json_array();
    for (struct run *r = s->runs; r; r = r->next) {
        json_array_append_new(ids, json_string(r->attempt.job));
    }
    json_t *look = store_overview(s->store, ids, e);
    json_decref(ids);
    if (look) {
        json_decref(s->look);
        s->look = look;
        s->look_at = now;
    }
    return look ? 0 : -(int)e->code;
}

/* Is the store there? When it comes back, or when this process itself had no CPU, ages of
 * heartbeats mean nothing for a while. */
static bool check_store(struct sched *s, double now)
{
    struct err e = {0};
    bool away = (s->store_away || !s->look || now - s->look_at >= look_seconds) &&
                look_at_store(s, now, &e) < 0;
    if (away && !s->store_away) {
        char quoted[600];
        log_warn("sched", "the store is away; jobs go on", "why=%s",
                 log_quote(quoted, sizeof quoted, e.message));
    } else if (!away && s->store_away) {
        log_info("sched", "the store is back", "running=%d", s->n_runs);
        give_grace(s, now + grace_seconds);
        s->quiet_until = now + settle_seconds;
    }
    s->store_away = away;
    if (s->last_tick > -1e17 && now - s->last_tick > stall_seconds) {
        give_grace(s, now + stall_seconds);
    }
    s->last_tick = now;
    return !away;
}

/* A job that was cancelled before it ran belongs to no run: it is swept at once. */
static bool has_orphan(struct sched *s)
{
    json_t *id;
    size_t i;
    json_array_foreach(json_object_get(s->look, "cancelling"), i, id) {
        if (!run_find(s, json_string_value(id))) {
            return true;
        }
    }
    return false;
}

void sched_tick(struct sched *s, double now)
{
    struct err e = {0};
    char quoted[600];
    int rc = 0;
    if (!check_store(s, now)) {
        for (struct run *r = s->runs; r; r = r->next) {
            run_enforce(r, now);
        }
        return;
    }
    if (now - s->sweep_at >= sweep_seconds || (!s->draining && has_orphan(s))) {
        rc = recover_jobs(s, now, &e);
        s->sweep_at = rc >= 0 ? now : s->sweep_at;
        sched_woken(s);
    }
    watch_leaving(s, now);
    tick_runs(s, now);
    if (rc >= 0 && !s->draining && now >= s->quiet_until) {
        rc = queue_tick(s, now, &e);
    }
    if (rc < 0) {
        s->store_away |= e.code == ERR_UNAVAILABLE;
        log_warn("sched", "a turn failed, it is tried again", "why=%s",
                 log_quote(quoted, sizeof quoted, e.message));
    }
}

void sched_woken(struct sched *s)
{
    json_decref(s->look);
    s->look = NULL;
}

void sched_drain(struct sched *s)
{
    s->draining = true;
}

void sched_abandon(struct sched *s)
{
    for (struct run *r = s->runs; r; r = r->next) {
        log_warn("sched", "ended without a checkpoint; it goes on from its last one", "job=%s",
                 r->attempt.job);
        r->launcher->stop(r->launcher->ctx, &r->attempt, 1);
    }
}

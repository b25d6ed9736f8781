/* The scheduler's turn: see scheduler.h, and attempts.h for the files that it calls.
 *
 *   is the store there? ─► sweep: jobs that nobody has in hand ─► a turn of each run ─► the queue
 *
 * No decision is made without the store. While it is away, only processes of jobs known to be
 * cancelled are ended. For 10 s after it is back, ages of heartbeats are ignored, since nodes
 * appear lost until they have reported again.
 */
#include "coordinator/turn/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/turn/elastic.h"
#include "coordinator/turn/queue/queue.h"
#include "coordinator/turn/recover.h"
#include "coordinator/turn/run/run.h"
#include "job/node/node.h"

static const double sweep_seconds = 5, grace_seconds = 10, stall_seconds = 2, settle_seconds = 3,
                    complain_seconds = 30, leaving_seconds = 1, overview_seconds = 0.5;

struct sched {
    struct attempts attempts;
    struct queue queue;
    struct elastic elastic;
    double last_tick, sweep_at, leaving_at;
    /* nothing starts before this: nodes must first report to a store that is back */
    double quiet_until;
    bool store_away;
    struct store_overview overview; /* read at overview_at; owned */
    double overview_at;
    bool fresh;                /* nothing in it has changed since, as far as we know */
    const struct lease *lease; /* borrowed */
};

struct sched *sched_new(const struct sched_config *c, struct err *e)
{
    struct sched *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot open the scheduler: memory ran out");
        return NULL;
    }
    queue_init(&s->queue, c->virtual_jobs, c->quotas);
    elastic_init(&s->elastic, &c->growth);
    struct attempts *a = &s->attempts;
    a->store = c->store;
    snprintf(a->data_dir, sizeof a->data_dir, "%s", c->data_dir);
    snprintf(a->roots, sizeof a->roots, "%s", c->roots ? c->roots : "");
    snprintf(a->local_host, sizeof a->local_host, "%s", c->local_host ? c->local_host : "");
    a->mpirun = c->mpirun;
    a->simulator = c->simulator;
    s->lease = c->lease;
    s->sweep_at = s->last_tick = s->quiet_until = -1e18;
    return s;
}

void sched_free(struct sched *s)
{
    if (s) {
        attempts_release(&s->attempts);
        queue_release(&s->queue);
        elastic_release(&s->elastic);
        store_overview_release(&s->overview);
    }
    free(s);
}

int sched_running(const struct sched *s)
{
    return s->attempts.n_runs;
}

bool sched_behind(const struct sched *s)
{
    const struct run *r = s->attempts.runs;
    while (r && !(r->monitor && monitor_behind(r->monitor))) {
        r = r->next;
    }
    return r && !s->store_away;
}

bool sched_store_away(const struct sched *s)
{
    return s->store_away;
}

/* ---- the turn -------------------------------------------------------------------------------- */

/* Logs the first failure, then one every half minute with the count. */
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

/* Logs that the store is away, once an outage, whichever call finds it. */
static void note_away(struct sched *s, const struct err *why)
{
    char quoted[600];
    if (!s->store_away) {
        s->store_away = true;
        log_warn("sched", "the store is away; jobs go on", "why=%s",
                 log_quote(quoted, sizeof quoted, why->message));
    }
}

static void tick_runs(struct sched *s, double now)
{
    for (struct run *r = s->attempts.runs, *next; r && lease_held(s->lease); r = next) {
        struct err e = {0};
        next = r->next;
        int rc = run_tick(&s->attempts, r, s->fresh ? &s->overview : NULL, now, &e);
        if (rc == RUN_SETTLED) {
            attempts_drop(&s->attempts, r);
            queue_stir(&s->queue); /* its job may be queued again */
            sched_woken(s);
        } else if (rc < 0) {
            complain(r, now, &e);
            if (e.code == ERR_UNAVAILABLE) {
                note_away(s, &e); /* it went away during the turn */
            }
        } else {
            r->failures = 0;
        }
        if (s->attempts.changed) {
            s->attempts.changed = false;
            sched_woken(s);
        }
    }
}

/* Hosts that are about to stop mark their nodes; attempts that use one are drained. */
static void watch_leaving(struct sched *s, double now)
{
    struct run *runs = s->attempts.runs;
    if (!runs || now - s->leaving_at < leaving_seconds) {
        return;
    }
    json_t *nodes = store_nodes(s->attempts.store, NULL), *node;
    size_t i;
    s->leaving_at = now;
    json_array_foreach(nodes, i, node) {
        const char *name = node_name(node);
        for (struct run *r = node_is_leaving(node) ? runs : NULL; r; r = r->next) {
            if (!r->leaving && r->launcher == s->attempts.mpirun && plan_uses(r->plan, name)) {
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
    for (struct run *r = s->attempts.runs; r; r = r->next) {
        if (r->monitor) {
            monitor_grace(r->monitor, until);
        }
    }
}

/* The queue, cancelled jobs, and the state of each job with an attempt. They change only by our own
 * actions and by requests that wake us, so reading them twice a second is enough otherwise. */
static int read_overview(struct sched *s, double now, struct err *e)
{
    if (!lease_held(s->lease)) {
        return err_set(e, ERR_UNAVAILABLE, "the coordinator's lease could not be renewed in time");
    }
    const char **ids = calloc((size_t)s->attempts.n_runs + 1, sizeof *ids);
    size_t n = 0;
    for (struct run *r = s->attempts.runs; ids && r; r = r->next) {
        ids[n++] = r->attempt.job;
    }
    struct store_overview seen;
    int rc = ids ? store_overview_read(s->attempts.store, &seen, ids, n, e)
                 : err_set(e, ERR_MEMORY, "cannot read the jobs: memory ran out");
    free(ids);
    if (rc >= 0) {
        store_overview_release(&s->overview);
        s->overview = seen;
        s->overview_at = now;
        s->fresh = true;
    }
    return rc;
}

/* Is the store there? After it was away, or after this process got no CPU time, ages of heartbeats
 * are ignored for a while. */
static bool check_store(struct sched *s, double now)
{
    struct err e = {0};
    bool due = s->store_away || !s->fresh || now - s->overview_at >= overview_seconds;
    bool away = (due || !lease_held(s->lease)) && read_overview(s, now, &e) < 0;
    if (away) {
        note_away(s, &e);
    } else if (s->store_away) {
        s->store_away = false;
        log_info("sched", "the store is back", "running=%d", s->attempts.n_runs);
        give_grace(s, now + grace_seconds);
        s->quiet_until = now + settle_seconds;
    }
    if (s->last_tick > -1e17 && now - s->last_tick > stall_seconds) {
        give_grace(s, now + stall_seconds);
    }
    s->last_tick = now;
    return !away;
}

/* Is there a cancelled job without a run? It never ran, and is swept at once. */
static bool has_orphan(struct sched *s)
{
    for (size_t i = 0; s->fresh && i < s->overview.n_cancelling; i++) {
        if (!attempts_find(&s->attempts, s->overview.cancelling[i])) {
            return true;
        }
    }
    return false;
}

static int tick_queue(struct sched *s, double now, struct err *e)
{
    if (!s->fresh && read_overview(s, now, e) < 0) {
        return -(int)e->code;
    }
    int rc = queue_tick(&s->queue, &s->attempts, &s->overview, now, e);
    return rc < 0 ? rc : elastic_tick(&s->elastic, &s->attempts, &s->queue, now, e);
}

void sched_tick(struct sched *s, double now)
{
    struct err e = {0};
    char quoted[600];
    int rc = 0;
    if (!check_store(s, now)) {
        for (struct run *r = s->attempts.runs; r; r = r->next) {
            run_enforce(r, now);
        }
        return;
    }
    if (now - s->sweep_at >= sweep_seconds || (!s->attempts.draining && has_orphan(s))) {
        rc = recover_jobs(&s->attempts, now, &e);
        s->sweep_at = rc >= 0 ? now : s->sweep_at;
        sched_woken(s);
    }
    watch_leaving(s, now);
    tick_runs(s, now);
    if (rc >= 0 && !s->attempts.draining && now >= s->quiet_until) {
        rc = tick_queue(s, now, &e);
    }
    if (rc < 0) {
        if (e.code == ERR_UNAVAILABLE) {
            note_away(s, &e);
        }
        log_warn("sched", "a turn failed, it is tried again", "why=%s",
                 log_quote(quoted, sizeof quoted, e.message));
    }
}

void sched_woken(struct sched *s)
{
    s->fresh = false;
}

void sched_drain(struct sched *s)
{
    s->attempts.draining = true;
}

void sched_abandon(struct sched *s)
{
    for (struct run *r = s->attempts.runs; r; r = r->next) {
        log_warn("sched", "ended without a checkpoint; it continues from its last one", "job=%s",
                 r->attempt.job);
        r->launcher->stop(r->launcher->ctx, &r->attempt, 1);
    }
}

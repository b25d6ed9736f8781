/* Which queued jobs start now, and on which nodes (see scheduler.h for the turn around it).
 *
 *   in the order of shares.h:   job A (2 of 4 nodes free)  waits     job B (1 node)  starts
 *
 * A job whose owner has reached a quota waits, says so, and reserves no node. Smaller jobs may
 * overtake a job that waits for busy nodes. So that it does not starve, its nodes are reserved
 * against jobs of lower priority, and after a minute against all jobs after it. One turn tries only
 * a part of a long queue: always its head, and a window of the rest, which moves on. So a hundred
 * jobs that wait for a missing node do not hide one that could run.
 */
#include "coordinator/turn/queue/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/log.h"
#include "coordinator/files/programs.h"
#include "coordinator/turn/queue/launch.h"
#include "coordinator/turn/queue/preempt.h"
#include "coordinator/turn/resize.h"
#include "coordinator/turn/wall.h"
#include "job/node/node.h"

enum { WINDOW = 64, FINGERPRINT_BYTES = 64 << 20 };
static const double queue_seconds = 5, patience_seconds = 60;

/* One pass over the queue. */
struct round {
    struct queue *queue;
    struct attempts *attempts;
    double now;
    const struct queued_job *queued; /* borrowed */
    size_t n;
    json_t *nodes;         /* the nodes as of now; owned */
    struct names reserved; /* nodes kept for earlier jobs that have waited long; owned */
};

void queue_init(struct queue *q, int virtual_jobs, struct quotas *quotas)
{
    *q = (struct queue){.virtual_jobs = virtual_jobs > 0 ? virtual_jobs : 1, .tried_at = -1e18};
    shares_init(&q->shares, quotas);
}

/* Forgets what queued jobs wait for. */
static void clear_wanted(struct queue *q)
{
    for (size_t i = 0; i < q->n_wanted; i++) {
        names_release(&q->wanted[i].nodes);
    }
    q->n_wanted = 0;
}

void queue_release(struct queue *q)
{
    shares_release(&q->shares);
    names_release(&q->waiting_since);
    clear_wanted(q);
    free(q->wanted);
    free(q->seen);
}

void queue_stir(struct queue *q)
{
    q->tried_at = -1e18;
}

/* ---- a job that waits ------------------------------------------------------------------------ */

/* Writes why the job waits to its field "waiting", if that has changed. */
static void say_waiting(struct attempts *a, const char *job, const char *why)
{
    char *old = store_job_field(a->store, job, "waiting", NULL);
    if (!old || strcmp(old, why) != 0) {
        char quoted[300];
        store_job_set(a->store, job, "waiting", why, NULL);
        log_info("sched", "waits", "job=%s why=%s", job, log_quote(quoted, sizeof quoted, why));
    }
    free(old);
}

/* How many seconds the job has waited in this queue. */
static double waited(const struct round *round, const char *job)
{
    struct names *all = &round->queue->waiting_since;
    const struct named *since = names_find(all, job);
    if (since) {
        return round->now - since->number;
    }
    names_add(all, job, round->now);
    return 0;
}

/* Forgets jobs that have left the queue. */
static void forget_waiting(struct queue *q, const struct store_overview *seen)
{
    struct names kept = {0};
    for (size_t i = 0; i < seen->n_queued; i++) {
        const struct named *since = names_find(&q->waiting_since, seen->queued[i].id);
        if (since) {
            names_add(&kept, since->name, since->number);
        }
    }
    names_release(&q->waiting_since);
    q->waiting_since = kept;
}

/* Adds the nodes that a job of this priority must not use. */
static void reserve_for(struct names *out, const struct round *round, int priority)
{
    names_add_all(out, &round->reserved);
    for (size_t i = 0; i < round->queue->n_wanted; i++) {
        const struct wanted *ahead = &round->queue->wanted[i];
        if (ahead->priority > priority) {
            names_add_all(out, &ahead->nodes);
        }
    }
}

/* Says that the job waits for nodes. If it was paused for another job, it names that one. */
static void say_waiting_for_nodes(struct attempts *a, const char *job, int attempt, const char *why)
{
    char text[600];
    char *to = attempt > 1 ? store_job_field(a->store, job, "yielded_to", NULL) : NULL;
    snprintf(text, sizeof text, "%s%s%s%s", to ? "paused for job " : "", to ? to : "",
             to ? " of higher priority; " : "", why);
    say_waiting(a, job, text);
    free(to);
}

static void wait_for_nodes(struct round *round, const char *job, const struct placement_ask *ask,
                           const char *why)
{
    struct names nodes = {0};
    double seconds = waited(round, job);
    struct preemption preemption = quotas_preemption(round->queue->shares.quotas);
    say_waiting_for_nodes(round->attempts, job, ask->attempt, why);
    placement_reserve(&nodes, ask);
    if (seconds > patience_seconds) {
        names_add_all(&round->reserved, &nodes);
    }
    struct preempt_ask preempt = {.job = job,
                                  .place = ask,
                                  .shares = &round->queue->shares,
                                  .pauses = preemption.after >= 0 && seconds >= preemption.after,
                                  .keep = preemption.keep,
                                  .now = round->now};
    preempt_for(round->attempts, &preempt);
    round->queue->wanted[round->queue->n_wanted++] =
        (struct wanted){.priority = ask->spec->priority, .nodes = nodes};
}

/* ---- one job --------------------------------------------------------------------------------- */

/* A job whose spec can never run, or whose time is over, fails. */
static void fail_queued(struct attempts *a, const char *job, const struct err *why)
{
    char quoted[600];
    struct failure f = failure_of(why->code, why->message, COORDINATOR, NULL, 0);
    attempts_move(a, job, JOB_QUEUED, JOB_FAILED, &f, NULL);
    log_warn("sched", "no longer runs", "job=%s why=%s", job,
             log_quote(quoted, sizeof quoted, why->message));
}

static int virtual_running(const struct attempts *a)
{
    int n = 0;
    for (const struct run *r = a->runs; r; r = r->next) {
        n += r->launcher == a->simulator;
    }
    return n;
}

/* Takes the spec over, like start_real. */
static int start_virtual(struct round *round, const char *job, struct jobspec *spec, struct err *e)
{
    struct attempts *a = round->attempts;
    struct placement none = {0};
    if (a->simulator && virtual_running(a) < round->queue->virtual_jobs) {
        return launch_job(a, job, spec, &none, round->now, e);
    }
    if (a->simulator) {
        say_waiting(a, job, "as many virtual jobs as are allowed run already");
    } else {
        struct err why = {0};
        err_set(&why, ERR_UNSUPPORTED,
                "cannot run a virtual job: this coordinator has no evenstep-simulate");
        fail_queued(a, job, &why);
    }
    attempts_free_spec(spec);
    return 0;
}

/* The number of nodes that the job has kept from its last attempt, which had another size. */
static int own_nodes(const struct round *round, const char *job)
{
    int n = 0;
    size_t i;
    json_t *node;
    json_array_foreach(round->nodes, i, node) {
        n += strcmp(node_user(node), job) == 0;
    }
    return n;
}

static int start_real(struct round *round, const char *job, struct jobspec *spec, struct err *e)
{
    struct attempts *a = round->attempts;
    char *attempt = store_job_field(a->store, job, "attempt", e);
    json_t *manifest = programs_manifest(spec, a->data_dir);
    struct names reserved = {0};
    const struct shares *shares = &round->queue->shares;
    struct placement_ask ask = {
        .nodes = round->nodes,
        .local_host = a->local_host[0] ? a->local_host : NULL,
        .spec = spec,
        .manifest = manifest,
        .attempt = (attempt ? (int)strtol(attempt, NULL, 10) : 0) + 1,
        .reserved = &reserved,
        .own = job,
        .most = shares_most(shares, shares_owner(shares, job), own_nodes(round, job))};
    struct placement placement;
    int rc = 0;
    reserve_for(&reserved, round, spec->priority);
    resize_reserve(a, job, round->nodes, &reserved);
    if (placement_find(&placement, &ask)) {
        rc = launch_job(a, job, spec, &placement, round->now, e);
    } else {
        wait_for_nodes(round, job, &ask, placement.waiting);
        attempts_free_spec(spec);
    }
    free(attempt);
    placement_release(&placement);
    names_release(&reserved);
    json_decref(manifest);
    return rc;
}

/* Has the job's owner reached a quota? */
static bool is_over_quota(struct round *round, const char *job, const struct jobspec *spec)
{
    char why[SHARES_WHY];
    const struct shares *shares = &round->queue->shares;
    int more = jobspec_least_workers(spec) - own_nodes(round, job),
        workers = spec->cluster || more < 0 ? 0 : more;
    bool over = !shares_allow(shares, shares_owner(shares, job), workers, why);
    if (over) {
        say_waiting(round->attempts, job, why);
    }
    return over;
}

/* Must the job wait, because its last attempts ended soon after their start? */
static bool is_paused(struct round *round, const char *job)
{
    double left = attempts_pause(round->attempts, job, round->now);
    double *again = &round->queue->again_at;
    if (left > 0) {
        *again = round->now + left < *again ? round->now + left : *again;
        say_waiting(round->attempts, job,
                    "its last attempts ended within seconds; the next one waits longer each time, "
                    "up to a minute");
    }
    return left > 0;
}

static int try_start(struct round *round, const struct share_place *place, struct err *e)
{
    struct attempts *a = round->attempts;
    const char *job = place->id;
    struct err late = {0};
    if (attempts_find(a, job)) { /* its last attempt still holds its nodes */
        return 0;
    }
    struct jobspec *spec = attempts_spec(a, job, e);
    if (wall_is_over(a->store, job, spec, NULL, &late)) {
        fail_queued(a, job, &late);
        attempts_free_spec(spec);
        return 0;
    }
    if (is_paused(round, job) || (spec && is_over_quota(round, job, spec))) {
        attempts_free_spec(spec);
        return 0;
    }
    if (spec) {
        spec->priority = place->priority; /* the spec has only the priority at submission */
        return spec->cluster ? start_virtual(round, job, spec, e) : start_real(round, job, spec, e);
    }
    if (!attempts_store_away(e)) {
        fail_queued(a, job, e);
    }
    return -(int)e->code;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* A text of everything that the outcome depends on: names, states and users of the nodes, whether
 * their packages are known, the queue, and the quotas. While it stays the same, so does the
 * outcome. */
static char *fingerprint(const struct round *round)
{
    struct buf seen;
    size_t i;
    json_t *node;
    buf_init(&seen, FINGERPRINT_BYTES);
    json_array_foreach(round->nodes, i, node) {
        buf_addf(&seen, "%s %s %s %d\n", node_name(node), node_state(node), node_user(node),
                 node_python(node, "python3").asked);
    }
    for (i = 0; i < round->n; i++) {
        buf_addf(&seen, "%s %d\n", round->queued[i].id, round->queued[i].priority);
    }
    buf_addf(&seen, "%d %ld", round->attempts->n_runs, quotas_version(round->queue->shares.quotas));
    return buf_take(&seen, NULL);
}

/* Is the job tried in this turn? Yes in the head of the queue, and in the current window of the
 * rest. */
static bool is_due(const struct queue *q, size_t i, size_t n)
{
    if (i < WINDOW || n <= (size_t)2 * WINDOW) {
        return true;
    }
    size_t rest = n - WINDOW, place = (i - WINDOW + rest - q->from % rest) % rest;
    return place < WINDOW;
}

/* The queue as a new array in the order of shares.h; NULL: memory ran out. */
static struct share_place *line_up(struct round *round, size_t n)
{
    struct share_place *line = calloc(n, sizeof *line);
    for (size_t i = 0; line && i < n; i++) {
        const struct queued_job *job = &round->queued[i];
        line[i] = (struct share_place){.id = job->id,
                                       .owner = shares_owner(&round->queue->shares, job->id),
                                       .priority = job->priority,
                                       .age = i};
    }
    return line;
}

/* After nodes were taken: reads again what is free, and sorts the remaining jobs. */
static int see_anew(struct round *round, struct share_place *left, size_t n, struct err *e)
{
    json_decref(round->nodes);
    round->nodes = store_nodes(round->attempts->store, e);
    if (!round->nodes) {
        return -(int)e->code;
    }
    int rc = shares_count(&round->queue->shares, round->attempts, round->nodes, e);
    shares_sort(&round->queue->shares, left, n);
    return rc;
}

static int try_line(struct round *round, struct share_place *line, size_t n, struct err *e)
{
    struct attempts *a = round->attempts;
    shares_sort(&round->queue->shares, line, n);
    for (size_t i = 0; i < n; i++) {
        int before = a->n_runs;
        if (!is_due(round->queue, i, n) && !resize_is_between(a, line[i].id)) {
            continue;
        }
        if (try_start(round, &line[i], e) < 0 && attempts_store_away(e)) {
            return -(int)e->code;
        }
        err_clear(e);
        if (a->n_runs != before && see_anew(round, line + i + 1, n - i - 1, e) < 0) {
            return -(int)e->code;
        }
    }
    return 0;
}

static int try_all(struct round *round, struct err *e)
{
    struct queue *q = round->queue;
    size_t n = round->n;
    int rc = shares_learn(&q->shares, round->attempts, round->queued, n, e);
    if (rc < 0 || (rc = shares_count(&q->shares, round->attempts, round->nodes, e)) < 0) {
        return rc;
    }
    clear_wanted(q);
    free(q->wanted);
    q->wanted = calloc(n, sizeof *q->wanted);
    struct share_place *line = line_up(round, n);
    rc = line && q->wanted ? try_line(round, line, n, e)
                           : err_set(e, ERR_MEMORY, "cannot sort the queue: memory ran out");
    free(line);
    if (rc >= 0) {
        resize_over(round->attempts, round->nodes);
    }
    q->from += WINDOW;
    return rc;
}

/* Tries the queue if something has changed. Otherwise trying now and then is enough. */
static int try_if_due(struct round *round, struct err *e)
{
    struct queue *q = round->queue;
    char *now = fingerprint(round);
    bool same = now && q->seen && strcmp(now, q->seen) == 0;
    if (same && round->now - q->tried_at < queue_seconds && round->now < q->again_at) {
        free(now);
        return 0;
    }
    q->tried_at = round->now;
    q->again_at = 1e18;
    int rc = try_all(round, e);
    free(q->seen);
    q->seen = rc == 0 ? now : NULL;
    if (rc < 0) {
        free(now);
    }
    return rc;
}

int queue_tick(struct queue *q, struct attempts *a, const struct store_overview *seen, double now,
               struct err *e)
{
    launch_go_on(a, now);
    forget_waiting(q, seen);
    if (seen->n_queued == 0) {
        clear_wanted(q);
        return 0;
    }
    struct round round = {.queue = q,
                          .attempts = a,
                          .now = now,
                          .queued = seen->queued,
                          .n = seen->n_queued,
                          .nodes = store_nodes(a->store, e)};
    int rc = round.nodes ? try_if_due(&round, e) : -(int)e->code;
    json_decref(round.nodes);
    names_release(&round.reserved);
    return rc;
}

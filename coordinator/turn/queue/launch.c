/* How a queued job's next attempt starts.
 *
 *   claim nodes ─► attempt += 1 ─► plan ─► queued → launching ─► monitor takes over what is left,
 *     in several turns where that is much (docs/decisions/0078)
 *     ─► record of this host, then plan, control, no heartbeats, into the store ─► launcher
 *     ─► record of the process
 *
 * The order matters: if the coordinator dies between two of these, recover.c can go on from there.
 * The process is started last. Until it is recorded, its environment identifies it on the recorded
 * host.
 */
#include "coordinator/turn/queue/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "coordinator/monitor/seals.h"
#include "coordinator/planning/planner.h"
#include "coordinator/turn/resize.h"
#include "coordinator/turn/users.h"
#include "job/documents/coordinator/control.h"

/* ---- before it is launching ------------------------------------------------------------------ */

static void release_placed(struct attempts *a, const char *job, const struct placement *p, int n)
{
    for (int i = 0; i < n; i++) {
        store_node_release(a->store, p->nodes[i].name, job, NULL);
    }
}

/* Claims all nodes or none. Returns what store_node_claim does. */
static int claim_nodes(struct attempts *a, const char *job, const struct placement *p,
                       struct err *e)
{
    for (int i = 0; i < p->count; i++) {
        int rc = store_node_claim(a->store, p->nodes[i].name, job, e);
        if (rc != CLAIM_OURS) {
            release_placed(a, job, p, i);
            return rc;
        }
    }
    return CLAIM_OURS;
}

/* The version of the next assignment, counted over all attempts. */
static int next_version(struct attempts *a, const char *job)
{
    json_t *all = store_assignments(a->store, job, NULL);
    int version = assignment_version(json_array_get(all, json_array_size(all) - 1)) + 1;
    json_decref(all);
    return version;
}

/* Fails a job that these nodes cannot run (too small a batch, no `init`), since waiting does not
 * help.
 */
static void refuse(struct attempts *a, const char *job, int attempt, const struct err *why)
{
    char *before = store_job_field(a->store, job, "error", NULL);
    struct failure f = failure_of(why->code, why->message, COORDINATOR, NULL, attempt);
    failure_tell_before(&f, before);
    attempts_move(a, job, JOB_QUEUED, JOB_FAILED, &f, NULL);
    free(before);
}

static struct plan *make_plan(struct attempts *a, const char *job, const struct jobspec *spec,
                              const struct placement *placement, struct assignment *first,
                              struct err *e)
{
    int64_t number = store_job_increment(a->store, job, "attempt", e);
    if (number < 0) {
        return NULL;
    }
    struct planner_ask ask = {a->store, job,       a->data_dir, a->roots,
                              spec,     placement, (int)number, next_version(a, job)};
    struct plan *plan =
        spec->cluster ? planner_make_virtual(&ask, e) : planner_make(&ask, first, e);
    if (!plan && !attempts_store_away(e)) {
        refuse(a, job, (int)number, e);
    }
    return plan;
}

/* ---- from `launching` on --------------------------------------------------------------------- */

static int tell_first(struct attempts *a, const struct plan *plan, const struct assignment *first,
                      struct err *e)
{
    char when[32];
    const char *job = plan->from.job;
    const char **names = calloc((size_t)first->workers + 1, sizeof *names);
    if (!names) {
        return err_set(e, ERR_MEMORY, "cannot start job '%s': memory ran out", job);
    }
    for (int i = 0; i < first->workers; i++) {
        names[i] = plan->workers[i].node;
    }
    json_t *j = assignment_json(first, names, clock_format(when, clock_wall_ms()));
    int rc = store_assignment_add(a->store, job, j, e);
    if (rc >= 0) {
        rc = store_event(a->store, job, "assignment", j, e);
    }
    json_decref(j);
    free(names);
    return rc;
}

static int write_control(struct attempts *a, const struct plan *plan, struct err *e)
{
    struct control c = {
        .from = plan->from, .version = plan->first_version, .workers = plan->n_workers};
    memcpy(c.sizes, plan->first_sizes, sizeof c.sizes);
    json_t *j = control_json(&c);
    int rc = store_doc_set(a->store, plan->from.job, "control", j, e);
    json_decref(j);
    return rc;
}

/* Writes the documents that the ranks will read. */
static int write_documents(struct attempts *a, const struct plan *plan,
                           const struct assignment *first, struct err *e)
{
    json_t *j = plan_json(plan);
    int rc = store_doc_set(a->store, plan->from.job, "plan", j, e);
    json_decref(j);
    if (rc < 0 || (rc = store_beats_clear(a->store, plan->from.job, e)) < 0) {
        return rc;
    }
    if (plan->n_workers == 0) { /* a virtual attempt: the simulator decides and reports */
        return 0;
    }
    rc = write_control(a, plan, e);
    if (rc < 0) {
        return rc;
    }
    return tell_first(a, plan, first, e);
}

/* Opens the attempt's monitor, or lets it go on to take over what earlier attempts left. */
static int watch(struct attempts *a, struct run *r, double now, struct err *e)
{
    if (r->monitor) {
        return monitor_tick(r->monitor, now, e);
    }
    bool has_ranks = r->plan->n_workers > 0;
    int rc = has_ranks ? seals_draw(r->plan, &r->attempt.seal, e) : 0;
    return rc < 0 ? rc : attempts_watch(a, r, false, now, e);
}

static int start(struct attempts *a, struct run *r, struct err *e)
{
    int rc = attempts_record(a, r, e);
    if (rc < 0 || (rc = write_documents(a, r->plan, r->first, e)) < 0) {
        return rc;
    }
    r->attempt.own_users = plan_first_remote(r->plan) && users_make(a, r);
    return r->launcher->start(r->launcher->ctx, &r->attempt, r->plan, e);
}

/* Logs who runs which program, and where. */
static void tell_program(struct attempts *a, const struct run *r)
{
    const struct program_spec *p = &r->spec->program;
    char nodes[400] = "", quoted[300];
    if (!p->given) {
        return;
    }
    char *by = store_job_field(a->store, r->attempt.job, "owner", NULL);
    for (int i = 0; i < r->plan->n_workers; i++) {
        size_t n = strlen(nodes);
        snprintf(nodes + n, sizeof nodes - n, "%s%s", i ? "," : "", r->plan->workers[i].node);
    }
    log_info("programs", "runs", "job=%s attempt=%d by=%s program=%s nodes=%s", r->attempt.job,
             r->attempt.number, log_quote(quoted, sizeof quoted, by ? by : ""),
             p->digest[0] ? p->digest
             : p->name[0] ? p->name
                          : "command",
             nodes);
    free(by);
}

/* Marks the attempt as failed. run_tick() handles this like any other failure. */
static void fail(struct run *r, const struct err *why)
{
    char quoted[600], told[sizeof why->message + sizeof why->hint + 2];
    snprintf(told, sizeof told, "%s%s%s", why->message, why->hint[0] ? "; " : "",
             why->hint); /* logged, since the job's error has no field for a hint */
    r->failed = true;
    r->blameless = attempts_store_away(why);
    r->failure = failure_of(why->code, told, COORDINATOR, NULL, r->attempt.number);
    log_warn("sched", "cannot launch", "job=%s attempt=%d why=%s", r->attempt.job,
             r->attempt.number, log_quote(quoted, sizeof quoted, told));
}

static void tell_launched(struct attempts *a, struct run *r)
{
    r->unrecorded = attempts_record(a, r, NULL) < 0; /* if it fails, the next turn records it */
    tell_program(a, r);
    store_job_set(a->store, r->attempt.job, "waiting", NULL, NULL);
    store_job_set(a->store, r->attempt.job, "yielded_to", NULL, NULL);
    log_info("sched", "launched", "job=%s attempt=%d workers=%d pid=%d", r->attempt.job,
             r->attempt.number, r->plan->n_workers, (int)r->attempt.pid);
}

static void go_on(struct attempts *a, struct run *r, double now)
{
    struct err e = {0};
    int rc = watch(a, r, now, &e);
    if (r->monitor && (rc < 0 ? attempts_store_away(&e) : !monitor_ready(r->monitor))) {
        return; /* the next turn goes on */
    }
    if (rc >= 0) {
        r->launched_at = now;
        rc = start(a, r, &e);
    }
    free(r->first);
    r->first = NULL;
    if (rc < 0) {
        fail(r, &e);
    } else {
        tell_launched(a, r);
    }
}

void launch_go_on(struct attempts *a, double now)
{
    for (struct run *r = a->runs; r; r = r->next) {
        if (r->first) {
            go_on(a, r, now);
        }
    }
}

/* Makes a run, which owns the plan and the spec from then on. */
static struct run *new_run(struct attempts *a, struct plan *plan, struct jobspec *spec, double now)
{
    struct run *r = calloc(1, sizeof *r);
    if (r) {
        snprintf(r->attempt.job, sizeof r->attempt.job, "%s", plan->from.job);
        r->attempt.number = plan->from.attempt;
        r->launcher = spec->cluster ? a->simulator : a->mpirun;
        r->plan = plan;
        r->spec = spec;
        r->launched_at = now;
    }
    return r;
}

int launch_job(struct attempts *a, const char *job, struct jobspec *spec,
               const struct placement *placement, double now, struct err *e)
{
    struct assignment *first = calloc(1, sizeof *first);
    struct plan *plan = NULL;
    struct run *r = NULL;
    int rc = first ? claim_nodes(a, job, placement, e)
                   : err_set(e, ERR_MEMORY, "cannot start job '%s': memory ran out", job);
    if (rc != CLAIM_OURS) {
        goto fail;
    }
    if (!(plan = make_plan(a, job, spec, placement, first, e))) {
        rc = -(int)e->code;
        goto unclaim;
    }
    if (!(r = new_run(a, plan, spec, now))) {
        rc = err_set(e, ERR_MEMORY, "cannot start job '%s': memory ran out", job);
        goto unclaim;
    }
    rc = attempts_move(a, job, JOB_QUEUED, JOB_LAUNCHING, NULL, e);
    if (rc < 0) { /* the job was cancelled meanwhile, or the store went away */
        goto unclaim;
    }
    attempts_add(a, r);
    resize_begin(a, r, first);
    r->first = first;
    go_on(a, r, now);
    return 0;
unclaim:
    release_placed(a, job, placement, placement->count);
fail:
    free(r);
    planner_free(plan);
    free(first);
    attempts_free_spec(spec);
    return rc;
}

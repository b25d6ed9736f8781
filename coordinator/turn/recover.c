/* Attempts that were running when the coordinator died: see recover.h.
 *
 * Every job with an attempt is adopted. If its process has ended, the first turn settles it by the
 * facts in the store: an attempt that finished while no coordinator ran has succeeded. A process
 * that could not be recorded is found by its environment. A process of another host, or of another
 * boot of this one, cannot be judged by its number. Its ranks' heartbeats tell how it is.
 *
 * An attempt that is lost because a coordinator ended does not count as a restart of the job. An
 * attempt that ran, but whose plan this version of the program cannot read, is ended and counts.
 */
#include "coordinator/turn/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/process/proc.h"
#include "coordinator/monitor/seals.h"
#include "coordinator/planning/planner.h"
#include "coordinator/turn/run/run.h"
#include "job/documents/ranks/evaluation.h"
#include "job/documents/coordinator/launched.h"
#include "job/node/node.h"

/* ---- one job --------------------------------------------------------------------------------- */

/* Reads the record of this attempt's process; false: there is none that can be read. */
static bool read_launched(struct attempts *a, const struct sender *ours, struct launched *out)
{
    struct err why = {0};
    char *text = store_job_field(a->store, ours->job, "launch", NULL), quoted[600];
    json_t *j = text ? jsonx_parse(text, strlen(text), &why) : NULL;
    bool found = j && launched_read(out, j, &why) >= 0 && sender_is(&out->from, ours);
    if (text && why.code) {
        log_warn("recover", "cannot read which process was launched", "job=%s attempt=%d why=%s",
                 ours->job, ours->attempt, log_quote(quoted, sizeof quoted, why.message));
    }
    json_decref(j);
    free(text);
    return found;
}

/* Reads the plan of this attempt; the caller frees it with planner_free(). *out NULL: there is none
 * that can be read. Fails where the store is away. */
static int read_plan(struct attempts *a, const struct sender *ours, struct plan **out,
                     struct err *e)
{
    struct err why = {0};
    char quoted[600];
    json_t *j = store_doc_get(a->store, ours->job, "plan", e);
    *out = j ? calloc(1, sizeof **out) : NULL;
    if (!j && e->code) {
        return -(int)e->code;
    }
    bool found = *out && plan_read(*out, j, &why) >= 0 && sender_is(&(*out)->from, ours);
    if (why.code) {
        log_warn("recover", "cannot read the attempt's plan", "job=%s attempt=%d why=%s", ours->job,
                 ours->attempt, log_quote(quoted, sizeof quoted, why.message));
    }
    json_decref(j);
    if (!found) {
        planner_free(*out);
        *out = NULL;
    }
    return 0;
}

/* Are the attempt's keys there? Without them no report of its ranks could be believed. */
static bool has_seals(const struct plan *plan)
{
    bool there = plan->n_workers == 0 || seals_there(plan);
    if (!there) {
        log_warn("recover", "the keys of the attempt's ranks are not in the job's folder",
                 "job=%s attempt=%d", plan->from.job, plan->from.attempt);
    }
    return there;
}

/* Ends an attempt of which nothing can be used, and queues the job for its next one. An attempt
 * that was being launched had no process yet, since its plan is written first. */
static int start_over(struct attempts *a, const struct sender *ours, enum job_state state,
                      double now, struct err *e)
{
    struct attempt left = {.number = ours->attempt};
    snprintf(left.job, sizeof left.job, "%s", ours->job);
    a->mpirun->stop(a->mpirun->ctx, &left, 0);
    if (state == JOB_CANCELLING) {
        return attempts_move(a, ours->job, state, JOB_CANCELLED, NULL, e);
    }
    char message[160];
    struct jobspec *spec = attempts_spec(a, ours->job, e);
    if (!spec) {
        return -(int)e->code;
    }
    snprintf(message, sizeof message,
             "attempt %d was lost: the coordinator ended while it was being launched",
             ours->attempt);
    struct failure why = failure_of(ERR_PEER, message, COORDINATOR, NULL, ours->attempt);
    struct loss loss = {
        .state = state, .why = &why, .blameless = state == JOB_LAUNCHING, .now = now};
    int rc = run_lost(a, ours->job, spec, &loss, e);
    attempts_free_spec(spec);
    return rc;
}

/* Finds the attempt's process. `l`: its record, or NULL. A process without a record is searched for
 * on this host by its environment. */
static void locate(struct run *r, const struct launched *l)
{
    char here[PROC_SPACE];
    proc_space(here);
    bool ours = l && (!l->space[0] || strcmp(l->space, here) == 0);
    if (ours && l->pid > 0) {
        r->attempt.pid = l->pid;
        r->attempt.start_ticks = l->start_ticks;
    } else if (ours || !l) {
        r->unrecorded = r->launcher->find(r->launcher->ctx, &r->attempt);
    }
    r->elsewhere = !ours && r->attempt.pid == 0;
    r->blameless =
        r->elsewhere || r->attempt.pid == 0 || !proc_alive(r->attempt.pid, r->attempt.start_ticks);
}

static const struct launcher *launcher_of(const struct attempts *a, const struct plan *plan)
{
    return a->simulator && plan->n_workers == 0 ? a->simulator : a->mpirun;
}

/* Makes a run of the attempt, which owns the plan from then on. */
static struct run *rebuild(struct attempts *a, const struct launched *l, struct plan *plan,
                           double now, struct err *e)
{
    const char *job = plan->from.job;
    struct run *r = calloc(1, sizeof *r);
    if (!r) {
        planner_free(plan);
        err_set(e, ERR_MEMORY, "cannot adopt job '%s': memory ran out", job);
        return NULL;
    }
    snprintf(r->attempt.job, sizeof r->attempt.job, "%s", job);
    r->attempt.number = plan->from.attempt;
    r->launcher = launcher_of(a, plan);
    r->plan = plan;
    r->launched_at = now;
    locate(r, l);
    if (r->launcher == a->simulator) {
        json_t *told = store_assignments(a->store, job, NULL);
        r->told_assignments = json_array_size(told);
        json_decref(told);
        struct evaluations kept = {0};
        struct err unread;
        if ((told = store_doc_get(a->store, job, "detail:evaluations", NULL))) {
            evaluations_read(&kept, told, &unread);
        }
        r->told_evaluations = (size_t)kept.count;
        evaluations_release(&kept);
        json_decref(told);
    }
    r->spec = attempts_spec(a, job, e);
    if (!r->spec || attempts_watch(a, r, true, now, e) < 0) {
        run_free(r);
        return NULL;
    }
    return r;
}

static int adopt(struct attempts *a, const char *job, enum job_state state, double now,
                 struct err *e)
{
    char *text = store_job_field(a->store, job, "attempt", e);
    struct sender ours = {.attempt = text ? (int)strtol(text, NULL, 10) : 0, .rank = COORDINATOR};
    struct launched launched;
    struct plan *plan = NULL;
    free(text);
    snprintf(ours.job, sizeof ours.job, "%s", job);
    int rc = read_plan(a, &ours, &plan, e);
    if (rc < 0) {
        return rc;
    }
    if (!plan || !has_seals(plan)) {
        planner_free(plan);
        return start_over(a, &ours, state, now, e);
    }
    bool recorded = read_launched(a, &ours, &launched);
    struct run *r = rebuild(a, recorded ? &launched : NULL, plan, now, e);
    if (!r) {
        return -(int)e->code;
    }
    attempts_add(a, r);
    log_info("recover", "adopted", "job=%s attempt=%d pid=%d alive=%d host=%s", job, ours.attempt,
             (int)r->attempt.pid, proc_alive(r->attempt.pid, r->attempt.start_ticks),
             recorded ? launched.host : "");
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Does an attempt of this job hold its nodes, whether we could adopt it or not? */
static bool holds_nodes(struct attempts *a, const char *job)
{
    enum job_state state;
    struct err why = {0};
    if (attempts_find(a, job)) {
        return true;
    }
    int rc = store_job_state(a->store, job, &state, &why);
    if (rc < 0) {
        return rc != -ERR_NOT_FOUND;
    }
    return state == JOB_LAUNCHING || state == JOB_RUNNING || state == JOB_PAUSING ||
           state == JOB_CANCELLING;
}

/* Frees nodes whose job has no attempt any more. */
static int release_orphans(struct attempts *a, struct err *e)
{
    json_t *nodes = store_nodes(a->store, e), *node;
    size_t i;
    int rc = nodes ? 0 : -(int)e->code;
    json_array_foreach(nodes, i, node) {
        const char *job = node_user(node), *name = node_name(node);
        if (job[0] && !holds_nodes(a, job)) {
            log_info("recover", "a node is free again", "node=%s job=%s", name, job);
            rc = store_node_release(a->store, name, job, e);
        }
        if (rc < 0) {
            break;
        }
    }
    json_decref(nodes);
    return rc < 0 ? rc : 0;
}

int recover_jobs(struct attempts *a, double now, struct err *e)
{
    static const enum job_state states[] = {JOB_LAUNCHING, JOB_RUNNING, JOB_PAUSING,
                                            JOB_CANCELLING};
    char quoted[500];
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        json_t *ids = store_job_ids(a->store, states[i], e), *id;
        size_t k;
        if (!ids) {
            return -(int)e->code;
        }
        json_array_foreach(ids, k, id) {
            struct err why = {0};
            const char *job = json_string_value(id);
            if (!attempts_find(a, job) && adopt(a, job, states[i], now, &why) < 0) {
                log_warn("recover", "cannot adopt; it is tried again", "job=%s why=%s", job,
                         log_quote(quoted, sizeof quoted, why.message));
            }
        }
        json_decref(ids);
    }
    return release_orphans(a, e);
}

/* Where a job goes when its attempt has ended.
 *
 * mpirun's exit code decides nothing. The fact "ended" in the store does; without one the attempt
 * is lost, whatever the code.
 */
#include "coordinator/turn/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/turn/resize.h"
#include "coordinator/turn/users.h"
#include "job/node/node.h"

/* How long it waits for the hosts of an attempt that ended badly: longer than an agent's silence
 * goes unnoticed (STORE_NODE_LOST_MS). */
static const double host_patience = 5;
static const double disk_patience = 60;
enum { FREE_STARTS = 2 };

bool run_is_draining(const struct attempts *a, const struct run *r)
{
    return a->draining || r->leaving;
}

static const struct ended *outcome_of(const struct run *r)
{
    return r->monitor ? monitor_outcome(r->monitor) : NULL;
}

/* ---- why it did not go well ------------------------------------------------------------------ */

/* Has a rank failed for a reason of its own, not only because another one did? */
static bool told_why(const struct run *r)
{
    const struct ended *end = outcome_of(r);
    return end && end->outcome == OUTCOME_FAILED && end->code != ERR_PEER &&
           end->code != ERR_TIMEOUT && end->code != ERR_CANCELLED;
}

/* Did the job end as its spec wants? A virtual job's files tell. */
static bool is_done(const struct run *r, const struct ended *end)
{
    return end && end->outcome == OUTCOME_FINISHED && (!r->monitor || monitor_finished(r->monitor));
}

/* The failure where the keeper calls the job finished, but the workers' counters do not reach the
 * plan. */
static struct failure early_end(const struct run *r)
{
    int64_t counted, planned;
    char message[200];
    monitor_samples(r->monitor, &counted, &planned);
    snprintf(
        message, sizeof message,
        "attempt %d ended as if it were finished, but its workers counted %lld of %lld samples",
        r->attempt.number, (long long)counted, (long long)planned);
    return failure_of(ERR_PEER, message, COORDINATOR, NULL, r->attempt.number);
}

/* Why an attempt failed: by what the coordinator saw, else by a rank's report, else by what the
 * launcher tells. */
static struct failure attempt_failure(const struct run *r)
{
    const struct ended *end = outcome_of(r);
    int number = r->attempt.number, rank = r->end.rank;
    char message[500];
    struct failure death;
    if (r->failed) {
        return r->failure;
    }
    if (end && end->outcome == OUTCOME_FINISHED) {
        return early_end(r);
    }
    bool failed = end && end->outcome == OUTCOME_FAILED;
    if (r->monitor && !told_why(r) && monitor_death(r->monitor, &death) &&
        !(failed && monitor_ended_itself(r->monitor, death.rank))) {
        return death; /* the others' failures, and MPI's words, follow from this death */
    }
    if (end && end->outcome == OUTCOME_FAILED && (told_why(r) || !r->end.named)) {
        struct failure why = failure_of(end->code, end->message, end->rank, end->node, number);
        why.program = end->program;
        return why;
    }
    if (r->end.named) {
        const char *node = r->monitor ? monitor_node(r->monitor, rank) : "";
        snprintf(message, sizeof message, "it %.200s", r->end.why);
        return failure_of_loss(message, rank, node, number);
    }
    if (r->end.host[0]) {
        snprintf(message, sizeof message, "attempt %d did not start: %s", number, r->end.why);
    } else if (r->elsewhere) {
        snprintf(message, sizeof message,
                 "attempt %d was lost with the host of the coordinator that launched it", number);
    } else if (r->end.why[0]) {
        snprintf(message, sizeof message, "attempt %d was lost: %s", number, r->end.why);
    } else {
        snprintf(message, sizeof message,
                 "attempt %d was lost: %s ended with code %d and no rank said why", number,
                 r->launcher->name, r->end.exit_code);
    }
    return failure_of(ERR_PEER, message, COORDINATOR, NULL, number);
}

/* Was a worker killed, not crashed, before all had stepped? A crash would come again. If a worker
 * is killed while MPI connects the ranks, the others fail in MPI_Init, which names nobody, and the
 * launcher may end before the guard can report. */
static bool was_killed_in_start(const struct run *r, const struct failure *why)
{
    const struct attempt_end *end = &r->end;
    if (!r->monitor || told_why(r)) {
        return false;
    }
    if (why->rank == COORDINATOR) {
        return end->unnamed && !r->failed && !outcome_of(r) && monitor_died_in_start(r->monitor, 0);
    }
    bool killed =
        monitor_was_killed(r->monitor, why->rank) || (end->killed && end->rank == why->rank);
    return killed && monitor_died_in_start(r->monitor, why->rank);
}

/* Is this an error that another attempt would meet again? */
static bool is_incurable(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
    case ERR_SYNTAX:
    case ERR_DATA:
    case ERR_NOT_FINITE:
    case ERR_UNSUPPORTED:
    case ERR_NOT_FOUND:
    case ERR_TOO_LARGE:
    case ERR_FORBIDDEN:
        return true;
    default:
        return false;
    }
}

/* ---- where its job goes ---------------------------------------------------------------------- */

static int64_t field_number(struct attempts *a, const char *job, const char *field)
{
    char *text = store_job_field(a->store, job, field, NULL);
    int64_t n = text ? strtoll(text, NULL, 10) : 0;
    free(text);
    return n;
}

static int move(struct attempts *a, const char *job, enum job_state from, enum job_state to,
                const struct failure *why, struct err *e)
{
    int rc = attempts_move(a, job, from, to, why, e);
    char quoted[500];
    if (rc >= 0) {
        log_info("sched", "attempt ended", "job=%s state=%s why=%s", job, jobstate_name(to),
                 log_quote(quoted, sizeof quoted, why ? why->message : ""));
    }
    return rc;
}

/* ---- whose failure it was -------------------------------------------------------------------- */

/* Blames a node for a failure if its worker was lost, or reported an error that another node might
 * not have: a device, memory, a library. Errors of the spec or the data are the job's own. */
static void blame_node(struct attempts *a, const struct run *r, const char *node,
                       const struct failure *why)
{
    double rest = 0;
    char quoted[500];
    if (!node[0] || !plan_uses(r->plan, node) || is_incurable(why->code) ||
        why->code == ERR_PROGRAM ||
        store_node_failed(a->store, node, why->message, &rest, NULL) < 0 || rest <= 0) {
        return;
    }
    log_warn("sched", "a node rests, two attempts or more in a row have failed through it",
             "node=%s seconds=%g why=%s", node, rest,
             log_quote(quoted, sizeof quoted, why->message));
}

/* Blames all nodes of a host whose agent started no daemon. */
static void blame_host(struct attempts *a, const struct run *r, const struct failure *why)
{
    for (int i = 0; r->plan && i < r->plan->n_workers; i++) {
        const struct plan_worker *worker = &r->plan->workers[i];
        if (strcmp(worker->host, r->end.host) == 0) {
            blame_node(a, r, worker->node, why);
        }
    }
}

/* Judges the nodes of an attempt that ended well. A node whose worker died has failed all the
 * same. */
static void judge_nodes(struct attempts *a, const struct run *r)
{
    for (int i = 0; i < r->plan->n_workers; i++) {
        if (r->monitor && monitor_is_lost(r->monitor, i)) {
            struct failure why = failure_of(ERR_PEER, "its worker died", i,
                                            r->plan->workers[i].node, r->attempt.number);
            blame_node(a, r, why.node, &why);
        } else {
            store_node_well(a->store, r->plan->workers[i].node, NULL);
        }
    }
}

/* Would another attempt end in the same way? How a user's program ended is kept in a field of its
 * own, since `error` is cleared when the next attempt runs. */
static bool is_hopeless(struct attempts *a, const char *job, const struct failure *why)
{
    static const char field[] = "program_end";
    if (why->code != ERR_PROGRAM) {
        store_job_set(a->store, job, field, NULL, NULL);
        return is_incurable(why->code);
    }
    char *before = store_job_field(a->store, job, field, NULL), *now = NULL;
    json_t *error = failure_json(why);
    bool hopeless = failure_repeats(before, why);
    if ((now = json_dumps(error, JSON_COMPACT))) {
        store_job_set(a->store, job, field, now, NULL);
    }
    json_decref(error);
    free(before);
    free(now);
    return hopeless;
}

/* Does the job start again without a restart being counted? It would go on without a worker that is
 * killed later, so a kill during the start costs it nothing. This has a limit, since the start
 * itself may be what kills the worker. */
static bool starts_again(struct attempts *a, const char *job, const struct loss *loss)
{
    return loss->in_start && field_number(a, job, "killed_starts") < FREE_STARTS &&
           store_job_increment(a->store, job, "killed_starts", NULL) > 0;
}

int run_lost(struct attempts *a, const char *job, const struct jobspec *spec,
             const struct loss *loss, struct err *e)
{
    bool again = loss->state != JOB_CANCELLING && starts_again(a, job, loss),
         free = loss->blameless || again;
    bool may_restart = free || (field_number(a, job, "restarts") < spec->max_restarts &&
                                !is_hopeless(a, job, loss->why));
    enum job_state to = loss->state == JOB_CANCELLING ? JOB_CANCELLED
                        : may_restart                 ? JOB_QUEUED
                                                      : JOB_FAILED;
    int rc = move(a, job, loss->state, to, loss->why, e);
    if (rc >= 0 && to == JOB_QUEUED && !again) {
        attempts_back_off(a, job, loss->lasted, loss->now);
    }
    if (rc >= 0 && to == JOB_QUEUED && !free) {
        store_job_increment(a->store, job, "restarts", NULL);
    }
    return rc;
}

/* Moves the job to `succeeded`. Only `running` leads there, so other states pass through it. */
static int succeed(struct attempts *a, struct run *r, enum job_state state, struct err *e)
{
    const char *job = r->attempt.job;
    int rc = 0;
    if (state == JOB_PAUSING) { /* the job was done before it could pause */
        rc = store_job_transition(a->store, job, JOB_PAUSING, JOB_QUEUED, NULL, e);
        state = JOB_QUEUED;
    }
    if (rc >= 0 && state == JOB_QUEUED) {
        rc = store_job_transition(a->store, job, JOB_QUEUED, JOB_LAUNCHING, NULL, e);
        state = JOB_LAUNCHING;
    }
    if (rc >= 0 && state == JOB_LAUNCHING) {
        rc = store_job_transition(a->store, job, JOB_LAUNCHING, JOB_RUNNING, NULL, e);
    }
    return rc >= 0 ? move(a, r->attempt.job, JOB_RUNNING, JOB_SUCCEEDED, NULL, e) : rc;
}

static int time_is_up(struct attempts *a, struct run *r, enum job_state state, struct err *e)
{
    char message[160];
    snprintf(message, sizeof message, "the job has used the %g s that its max_seconds allows",
             r->spec->max_seconds);
    struct failure why = failure_of(ERR_TIMEOUT, r->late.code ? r->late.message : message,
                                    COORDINATOR, NULL, r->attempt.number);
    return move(a, r->attempt.job, state, JOB_FAILED, &why, e);
}

/* Queues a job that gave back some or all of its nodes without a failure. */
static int requeue(struct attempts *a, struct run *r, enum job_state state, struct err *e)
{
    int rc = move(a, r->attempt.job, state, JOB_QUEUED, NULL, e);
    r->requeued = rc >= 0;
    return rc;
}

/* Moves the job on. Reads the state again, so that a late request of a user counts. */
static int settle(struct attempts *a, struct run *r, const struct ended *end, double now,
                  struct err *e)
{
    enum job_state state;
    int rc = store_job_state(a->store, r->attempt.job, &state, e);
    if (rc == -ERR_NOT_FOUND) {
        return 0; /* the job was deleted meanwhile */
    }
    if (rc < 0) {
        return rc;
    }
    if (jobstate_ended(state) || state == JOB_QUEUED || state == JOB_PAUSED) {
        return 0; /* an earlier turn has settled it */
    }
    if (state == JOB_CANCELLING) {
        return move(a, r->attempt.job, state, JOB_CANCELLED, NULL, e);
    }
    if (is_done(r, end)) {
        return succeed(a, r, state, e);
    }
    if (r->expired) {
        return time_is_up(a, r, state, e);
    }
    if (end && end->outcome == OUTCOME_PAUSED) {
        return state == JOB_PAUSING ? move(a, r->attempt.job, state, JOB_PAUSED, NULL, e)
                                    : requeue(a, r, state, e);
    }
    if (state == JOB_PAUSING &&
        r->launcher == a->simulator) { /* a virtual job starts anew, and ends with the same bits */
        return move(a, r->attempt.job, state, JOB_PAUSED, NULL, e);
    }
    if (run_is_draining(a, r) && !told_why(r)) { /* the coordinator ended it */
        return requeue(a, r, state, e);
    }
    struct failure why = attempt_failure(r);
    bool started = !r->end.host[0];
    struct loss loss = {.state = state,
                        .why = &why,
                        .blameless = (r->blameless || !started) && !told_why(r),
                        .in_start = was_killed_in_start(r, &why),
                        .lasted = now - r->launched_at,
                        .now = now};
    rc = run_lost(a, r->attempt.job, r->spec, &loss, e);
    if (rc >= 0 && !started) {
        blame_host(a, r, &why);
    } else if (rc >= 0 && !loss.blameless) {
        blame_node(a, r, why.node, &why);
    }
    return rc;
}

enum last_words { READ_ALL, READ_ON };

/* Reads a turn's worth of the last rows, facts and documents. READ_ON: there are more. If the disk
 * refuses the history for long, the job ends all the same, and its rows stay in the store. */
static int read_last(struct run *r, double now, struct err *e)
{
    int rc = monitor_tick(r->monitor, now, e);
    if (rc >= 0 && monitor_behind(r->monitor)) {
        return READ_ON;
    }
    if (rc >= 0 || rc == -ERR_NOT_FOUND) {
        rc = monitor_finish(r->monitor, now, e);
    }
    bool give_up = rc == -ERR_NOT_FOUND ||
                   (rc < 0 && !attempts_store_away(e) && now - r->over_at > disk_patience);
    if (give_up) {
        log_warn("sched", "the end of a job's history is missing", "job=%s code=%s", r->attempt.job,
                 err_name((enum err_code) - rc));
        err_clear(e);
    }
    return give_up || rc >= 0 ? READ_ALL : rc;
}

/* Ends a cancelled job. Reports that are still unread cannot change its outcome, so neither its
 * user nor its nodes wait for them. */
static int end_cancelled(struct attempts *a, struct run *r, bool remote, struct err *e)
{
    enum job_state state;
    int rc = store_job_state(a->store, r->attempt.job, &state, e);
    if (rc < 0 || state != JOB_CANCELLING) {
        return rc == -ERR_NOT_FOUND ? RUN_SETTLED : rc < 0 ? rc : RUN_GOES_ON;
    }
    if ((rc = move(a, r->attempt.job, state, JOB_CANCELLED, NULL, e)) < 0 ||
        (rc = attempts_release_nodes(a, r->plan, e)) < 0) {
        return rc;
    }
    if (remote) {
        users_remove(a, r->plan);
    }
    a->changed = true;
    return RUN_GOES_ON;
}

static bool is_heard(const struct run *r, const json_t *node, double now)
{
    return !node_has_agent(node) || !plan_uses(r->plan, node_name(node)) ||
           strcmp(node_state(node), "lost") == 0 || node_beat_age(node) < now - r->over_at;
}

/* Is it known of each host with an agent whether it is still there? An agent that was killed with
 * its ranks looks alive for 4 s more, and would get the next attempt. So only a heartbeat after the
 * attempt's end counts. A new agent sends one when it has joined. */
static bool hosts_heard(struct attempts *a, const struct run *r, double now)
{
    json_t *nodes = store_nodes(a->store, NULL), *node;
    size_t i;
    bool all = nodes != NULL;
    json_array_foreach(nodes, i, node) {
        all = all && is_heard(r, node, now);
    }
    json_decref(nodes);
    return all;
}

static bool ended_by_itself(const struct run *r)
{
    const struct ended *end = outcome_of(r);
    return end && (end->outcome != OUTCOME_FAILED || told_why(r));
}

int run_finish(struct attempts *a, struct run *r, double now, struct err *e)
{
    static const struct ended finished = {.outcome = OUTCOME_FINISHED};
    int rc = 0;
    if (r->over_at == 0) {
        r->over_at = now;
    }
    bool remote = r->plan && !r->first && plan_first_remote(r->plan);
    if (remote && !ended_by_itself(r) && now < r->over_at + host_patience &&
        !hosts_heard(a, r, now)) {
        return RUN_GOES_ON;
    }
    bool reads = r->monitor && !(r->first && run_is_draining(a, r)); /* else the next attempt reads
                                                                        it */
    if (reads && (rc = read_last(r, now, e)) != READ_ALL) {
        return rc == READ_ON ? end_cancelled(a, r, remote, e) : rc;
    }
    const struct ended *end = outcome_of(r);
    if (r->launcher == a->simulator && run_virtual_finish(a, r)) {
        end = &finished;
    }
    if ((rc = settle(a, r, end, now, e)) < 0) {
        return rc;
    }
    bool goes_on = r->requeued && r->resize && !a->draining;
    rc = goes_on ? resize_keep(a, r, e) : attempts_release_nodes(a, r->plan, e);
    if (rc < 0) {
        return rc;
    }
    if (remote) {
        users_remove(a, r->plan);
    }
    if (end && (end->outcome == OUTCOME_FINISHED || end->outcome == OUTCOME_PAUSED)) {
        judge_nodes(a, r);
    }
    return RUN_SETTLED;
}

/* One attempt's turn: what users asked, what the ranks report, whether its process lives, and where
 * the job goes when it has ended.
 *
 * What a newcomer would get wrong: mpirun's exit code decides nothing. The fact "ended" in the
 * store does; without one the attempt is lost, whatever the code. And every step here may fail
 * because the store is away: then nothing has been decided, and the next turn does it again.
 */
#include "coordinator/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/proc.h"

static const double cancel_patience = 10, ended_patience = 15, drain_patience = 10, stop_grace = 2,
                    disk_patience = 60;

void run_free(struct run *r)
{
    monitor_close(r->monitor);
    if (r->spec) {
        jobspec_release(r->spec);
    }
    free(r->spec);
    json_decref(r->plan);
    json_decref(r->error);
    free(r);
}

static const char *text_of(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

static void stop_process(struct run *r, double grace)
{
    r->launcher->stop(r->launcher->ctx, &r->attempt, grace);
}

/* ---- while it runs --------------------------------------------------------------------------- */

/* It has to give its nodes back, and nobody is to blame: the coordinator stops, or one of its
 * hosts. */
static bool is_draining(const struct sched *s, const struct run *r)
{
    return s->draining || r->leaving;
}

/* From when on somebody waits for the process to end. */
static void note_requests(struct sched *s, struct run *r, enum job_state state, double now)
{
    if ((state == JOB_CANCELLING || r->expired) && r->cancel_at == 0) {
        r->cancel_at = now;
    }
    if (is_draining(s, r) && r->drain_at == 0) {
        r->drain_at = now;
    }
}

void run_enforce(struct run *r, double now)
{
    /* who has not stepped yet, or is virtual, has no checkpoint to write */
    bool early = !r->monitor || !monitor_stepped(r->monitor);
    bool slow = (r->cancel_at > 0 && now - r->cancel_at > (early ? 0 : cancel_patience)) ||
                (r->drain_at > 0 && now - r->drain_at > drain_patience);
    if (slow && !r->over) {
        stop_process(r, stop_grace);
    }
}

/* Tells the workers what users (or a drain) want; ends the process when they do not follow. */
static int follow_requests(struct sched *s, struct run *r, enum job_state state, double now,
                           struct err *e)
{
    bool stop = state == JOB_CANCELLING || r->expired,
         pause = state == JOB_PAUSING || is_draining(s, r);
    note_requests(s, r, state, now);
    int rc = r->monitor ? monitor_ask(r->monitor, stop, pause, e) : 0;
    if (!r->monitor && pause) {
        stop_process(r, stop_grace);
    }
    run_enforce(r, now); /* told or not */
    return rc;
}

static int watch_states(struct sched *s, struct run *r, enum job_state state, struct err *e)
{
    bool started = r->monitor ? monitor_stepped(r->monitor) : true;
    if (state != JOB_LAUNCHING || !started) {
        return 0;
    }
    log_info("sched", "running", "job=%s attempt=%d", r->attempt.job, r->attempt.number);
    sched_woken(s);
    return store_job_transition(s->store, r->attempt.job, JOB_LAUNCHING, JOB_RUNNING, NULL, e);
}

/* A rank that is over its deadline ends the attempt. */
static void watch_ranks(struct run *r, double now)
{
    char quoted[400];
    json_t *lost = r->monitor && !r->error ? monitor_lost(r->monitor, now) : NULL;
    if (lost) {
        log_warn("sched", "a rank is lost, the attempt ends", "job=%s attempt=%d why=%s",
                 r->attempt.job, r->attempt.number,
                 log_quote(quoted, sizeof quoted, text_of(lost, "message")));
        r->error = lost;
        stop_process(r, 0.5);
    }
}

static void watch_time(struct run *r, double now)
{
    double limit = r->spec ? r->spec->max_seconds : 0;
    double spent = r->monitor ? monitor_seconds(r->monitor) : now - r->launched_at;
    if (limit > 0 && spent > limit && !r->expired) {
        r->expired = true;
        log_info("sched", "has used its time", "job=%s max_seconds=%g", r->attempt.job, limit);
    }
}

/* The ranks said that they have ended, but the process is still there. */
static void watch_end(struct run *r, double now)
{
    if (!r->monitor || !monitor_outcome(r->monitor)) {
        return;
    }
    if (r->ended_at == 0) {
        r->ended_at = now;
    } else if (now - r->ended_at > ended_patience) {
        stop_process(r, stop_grace);
    }
}

static bool poll_process(struct run *r)
{
    if (!r->over && r->launcher->poll(r->launcher->ctx, &r->attempt, &r->exit_code, r->why,
                                      sizeof r->why) == 1) {
        r->over = true;
        stop_process(r, 0); /* stragglers and leftovers */
    }
    return r->over;
}

/* ---- when it has ended ----------------------------------------------------------------------- */

/* Open MPI: "mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed)."
 */
static int culprit(const char *why)
{
    const char *at = strstr(why, "process rank ");
    return at ? (int)strtol(at + strlen("process rank "), NULL, 10) : -1;
}

/* A rank failed, and not only because another one did. */
static bool told_why(const struct run *r)
{
    const json_t *outcome = r->monitor ? monitor_outcome(r->monitor) : NULL;
    const char *code = text_of(outcome, "code");
    return strcmp(text_of(outcome, "outcome"), "failed") == 0 && strcmp(code, "peer") != 0 &&
           strcmp(code, "timeout") != 0;
}

/* What is told about an attempt that did not go well: what the coordinator saw, what a rank said,
 * what mpirun said. */
static json_t *attempt_error(const struct run *r)
{
    const json_t *outcome = r->monitor ? monitor_outcome(r->monitor) : NULL;
    int number = r->attempt.number;
    char message[500];
    if (r->error) {
        return json_incref(r->error);
    }
    bool failed = strcmp(text_of(outcome, "outcome"), "failed") == 0;
    int rank = culprit(r->why);
    if (failed && (told_why(r) || rank < 0)) {
        return sched_error(text_of(outcome, "code"), text_of(outcome, "message"),
                           (int)json_integer_value(json_object_get(outcome, "rank")),
                           text_of(outcome, "node"), number);
    }
    if (rank >= 0) {
        const char *node = r->monitor ? monitor_node(r->monitor, rank) : "";
        const char *how = strstr(r->why, "exited on signal");
        snprintf(message, sizeof message, "rank %d on node '%s' is lost: it %.200s", rank, node,
                 how ? how : r->why);
        return sched_error("peer", message, rank, node, number);
    }
    if (r->why[0]) {
        snprintf(message, sizeof message, "attempt %d was lost: %s", number, r->why);
    } else {
        snprintf(message, sizeof message,
                 "attempt %d was lost: %s ended with code %d and no rank said why", number,
                 r->launcher->name, r->exit_code);
    }
    return sched_error("peer", message, -1, NULL, number);
}

/* Errors that another attempt meets again. */
static bool is_incurable(const char *code)
{
    static const char *const codes[] = {"invalid",   "syntax",    "data",     "unsupported",
                                        "not_found", "too_large", "forbidden"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t field_number(struct sched *s, const char *job, const char *field)
{
    char *text = store_job_field(s->store, job, field, NULL);
    int64_t n = text ? strtoll(text, NULL, 10) : 0;
    free(text);
    return n;
}

static int move(struct sched *s, const char *job, enum job_state from, enum job_state to,
                const json_t *error, struct err *e)
{
    int rc = store_job_transition(s->store, job, from, to, error, e);
    char quoted[500];
    if (rc >= 0) {
        log_info("sched", "attempt ended", "job=%s state=%s why=%s", job, jobstate_name(to),
                 log_quote(quoted, sizeof quoted, text_of(error, "message")));
    }
    return rc;
}

int run_lost(struct sched *s, const char *job, const struct jobspec *spec, enum job_state state,
             const json_t *error, struct err *e)
{
    bool may_restart = field_number(s, job, "restarts") < spec->max_restarts &&
                       !is_incurable(text_of(error, "code"));
    enum job_state to = state == JOB_CANCELLING ? JOB_CANCELLED
                        : may_restart           ? JOB_QUEUED
                                                : JOB_FAILED;
    int rc = move(s, job, state, to, error, e);
    if (rc >= 0 && to == JOB_QUEUED) {
        store_job_increment(s->store, job, "restarts", NULL);
    }
    return rc;
}

static int attempt_lost(struct sched *s, struct run *r, enum job_state state, struct err *e)
{
    json_t *error = attempt_error(r);
    int rc = run_lost(s, r->attempt.job, r->spec, state, error, e);
    json_decref(error);
    return rc;
}

/* `succeeded` has one arrow into it, from `running`: whatever the state, the job walks there. */
static int succeed(struct sched *s, struct run *r, enum job_state state, struct err *e)
{
    const char *job = r->attempt.job;
    int rc = 0;
    if (state == JOB_PAUSING) { /* it was done before it could pause */
        rc = store_job_transition(s->store, job, JOB_PAUSING, JOB_QUEUED, NULL, e);
        state = JOB_QUEUED;
    }
    if (rc >= 0 && state == JOB_QUEUED) {
        rc = store_job_transition(s->store, job, JOB_QUEUED, JOB_LAUNCHING, NULL, e);
        state = JOB_LAUNCHING;
    }
    if (rc >= 0 && state == JOB_LAUNCHING) {
        rc = store_job_transition(s->store, job, JOB_LAUNCHING, JOB_RUNNING, NULL, e);
    }
    return rc >= 0 ? move(s, r->attempt.job, JOB_RUNNING, JOB_SUCCEEDED, NULL, e) : rc;
}

static int time_is_up(struct sched *s, struct run *r, enum job_state state, struct err *e)
{
    char message[160];
    snprintf(message, sizeof message, "the job has used the %g s that its max_seconds allows",
             r->spec->max_seconds);
    json_t *error = sched_error("timeout", message, -1, NULL, r->attempt.number);
    int rc = move(s, r->attempt.job, state, JOB_FAILED, error, e);
    json_decref(error);
    return rc;
}

/* Where the job goes. Reads the state anew, so that a user's request of the last moment counts. */
static int settle(struct sched *s, struct run *r, const char *outcome, struct err *e)
{
    enum job_state state;
    int rc = store_job_state(s->store, r->attempt.job, &state, e);
    if (rc == -ERR_NOT_FOUND) {
        return 0; /* deleted under our hands */
    }
    if (rc < 0) {
        return rc;
    }
    if (jobstate_ended(state) || state == JOB_QUEUED || state == JOB_PAUSED) {
        return 0; /* settled before, by us */
    }
    if (state == JOB_CANCELLING) {
        return move(s, r->attempt.job, state, JOB_CANCELLED, NULL, e);
    }
    if (strcmp(outcome, "finished") == 0) {
        return succeed(s, r, state, e);
    }
    if (r->expired) {
        return time_is_up(s, r, state, e);
    }
    if (strcmp(outcome, "paused") == 0) {
        return move(s, r->attempt.job, state, state == JOB_PAUSING ? JOB_PAUSED : JOB_QUEUED, NULL,
                    e);
    }
    if (state == JOB_PAUSING &&
        r->launcher == s->simulator) { /* it starts anew, and ends with the same bits */
        return move(s, r->attempt.job, state, JOB_PAUSED, NULL, e);
    }
    if (is_draining(s, r) && !told_why(r)) { /* it was us who ended it */
        return move(s, r->attempt.job, state, JOB_QUEUED, NULL, e);
    }
    return attempt_lost(s, r, state, e);
}

/* The last rows, facts and documents. A disk that refuses the history for long does not keep a job
 * from ending: its rows stay in the store. */
static int read_last(struct run *r, double now, struct err *e)
{
    int rc = monitor_tick(r->monitor, now, e);
    bool finished = strcmp(text_of(monitor_outcome(r->monitor), "outcome"), "finished") == 0;
    rc = rc < 0 && rc != -ERR_NOT_FOUND ? rc : monitor_finish(r->monitor, now, finished, e);
    bool give_up =
        rc == -ERR_NOT_FOUND || (rc < 0 && !sched_is_away(e) && now - r->over_at > disk_patience);
    if (give_up) {
        log_warn("sched", "the end of a job's history is missing", "job=%s code=%s", r->attempt.job,
                 err_name((enum err_code) - rc));
        err_clear(e);
    }
    return give_up ? 0 : rc;
}

static int finish(struct sched *s, struct run *r, double now, struct err *e)
{
    const char *outcome = "";
    int rc = 0;
    if (r->over_at == 0) {
        r->over_at = now;
    }
    if (r->monitor) {
        if ((rc = read_last(r, now, e)) < 0) {
            return rc;
        }
        outcome = text_of(monitor_outcome(r->monitor), "outcome");
    } else if (r->launcher == s->simulator) {
        outcome = run_virtual_outcome(s, r);
    }
    rc = settle(s, r, outcome, e);
    if (rc >= 0) {
        rc = release_nodes(s, r->attempt.job, r->plan, e);
    }
    return rc < 0 ? rc : 1;
}

/* As the scheduler saw it; of a run that came since, or where something has changed, asked of the
 * store. */
static int read_state(struct sched *s, const struct run *r, enum job_state *state, struct err *e)
{
    const json_t *seen = json_object_get(json_object_get(s->look, "states"), r->attempt.job);
    int found = json_is_string(seen) ? jobstate_find(json_string_value(seen)) : -1;
    if (found >= 0) {
        *state = (enum job_state)found;
        return 0;
    }
    return store_job_state(s->store, r->attempt.job, state, e);
}

int run_tick(struct sched *s, struct run *r, double now, struct err *e)
{
    enum job_state state = JOB_RUNNING;
    struct err trouble = {0};
    if (r->over || (r->error && !r->attempt.pid)) {
        return poll_process(r) ? finish(s, r, now, e) : 0;
    }
    int rc = read_state(s, r, &state, e);
    if (rc == -ERR_NOT_FOUND) {
        stop_process(r, stop_grace);
        err_clear(e);
    } else if (rc < 0) {
        return rc;
    }
    if (poll_process(r)) {
        return finish(s, r, now, e);
    }
    note_requests(s, r, state, now);
    if (r->launcher == s->simulator) {
        run_virtual_tick(s, r);
    }
    /* a full disk must not keep anybody from stopping the job: the trouble is told at the end of
     * the turn */
    if (r->monitor && monitor_tick(r->monitor, now, &trouble) < 0 && sched_is_away(&trouble)) {
        *e = trouble;
        run_enforce(r, now);
        return -(int)trouble.code;
    }
    watch_ranks(r, now);
    watch_time(r, now);
    watch_end(r, now);
    rc = follow_requests(s, r, state, now, e);
    rc = rc < 0 ? rc : watch_states(s, r, state, e);
    if (rc >= 0 && trouble.code) {
        *e = trouble;
        rc = -(int)trouble.code;
    }
    return rc;
}

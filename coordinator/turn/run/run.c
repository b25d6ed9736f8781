/* One attempt's turn: follows users' requests, reads what the ranks report, and checks that its
 * process is alive.
 *
 * Any step may fail because the store is away. Then nothing is decided, and the next turn repeats
 * it.
 */
#include "coordinator/turn/run/run.h"

#include <string.h>

#include "common/log.h"
#include "coordinator/turn/resize.h"
#include "coordinator/turn/users.h"
#include "coordinator/turn/wall.h"

static const double cancel_patience = 10, ended_patience = 15, drain_patience = 10,
                    yield_patience = 60, stop_grace = 2, last_words_seconds = 3;

static void stop_process(struct run *r, double grace)
{
    r->launcher->stop(r->launcher->ctx, &r->attempt, grace);
}

/* ---- while it runs --------------------------------------------------------------------------- */

/* Notes since when a user's request waits for the process to end. */
static void note_requests(struct attempts *a, struct run *r, enum job_state state, double now)
{
    if ((state == JOB_CANCELLING || r->expired) && r->cancel_at == 0) {
        r->cancel_at = now;
    }
    if (run_is_draining(a, r) && r->drain_at == 0) {
        r->drain_at = now;
    }
}

void run_enforce(struct run *r, double now)
{
    /* a job that has not stepped yet, or is virtual, has no checkpoint to write; one in a long step
     * would not come to it in time */
    bool vain = !r->monitor || !monitor_stepped(r->monitor) ||
                monitor_in_long_step(r->monitor, now - r->step_at, cancel_patience);
    double patience = r->yields ? yield_patience : drain_patience;
    bool slow = (r->cancel_at > 0 && now - r->cancel_at > (vain ? 0 : cancel_patience)) ||
                (r->drain_at > 0 && now - r->drain_at > patience);
    if (slow && !r->over) {
        stop_process(r, stop_grace);
    }
}

/* Tells the workers what users (or a drain) want; ends the process when they do not follow. */
static int follow_requests(struct attempts *a, struct run *r, enum job_state state, double now,
                           struct err *e)
{
    bool stop = state == JOB_CANCELLING || r->expired,
         pause = state == JOB_PAUSING || run_is_draining(a, r);
    note_requests(a, r, state, now);
    int rc = r->monitor ? monitor_ask(r->monitor, stop, pause, e) : 0;
    if (!r->monitor && pause) {
        stop_process(r, stop_grace);
    }
    run_enforce(r, now); /* told or not */
    return rc;
}

/* Measures when the attempt made its last step and how fast it is, which says what a change of size
 * costs and is worth. */
static void watch_pace(struct attempts *a, struct run *r, double now)
{
    int64_t planned;
    if (!r->monitor || !monitor_stepped(r->monitor)) {
        return;
    }
    if (r->paced_at == 0) {
        r->paced_at = now;
        monitor_samples(r->monitor, &r->paced_samples, &planned);
        resize_stepped(a, r, now);
    }
    if (monitor_step(r->monitor) != r->step) {
        r->step = monitor_step(r->monitor);
        r->step_at = now;
    }
}

static void watch_time(struct attempts *a, struct run *r, double now)
{
    double limit = r->spec ? r->spec->max_seconds : 0;
    double spent = r->monitor ? monitor_seconds(r->monitor) : now - r->launched_at;
    if (limit > 0 && spent > limit && !r->expired) {
        r->expired = true;
        log_info("sched", "has used its time", "job=%s max_seconds=%g", r->attempt.job, limit);
    }
    if (!r->expired && wall_is_over(a->store, r->attempt.job, r->spec, &r->began, &r->late)) {
        r->expired = true;
        log_info("sched", "has used its time by the wall clock", "job=%s max_wall_seconds=%g",
                 r->attempt.job, r->spec->max_wall_seconds);
    }
}

static int watch_states(struct attempts *a, struct run *r, enum job_state state, double now,
                        struct err *e)
{
    bool started = r->monitor ? monitor_stepped(r->monitor) : true;
    if (state != JOB_LAUNCHING || !started) {
        return 0;
    }
    log_info("sched", "running", "job=%s attempt=%d", r->attempt.job, r->attempt.number);
    a->changed = true;
    int rc = attempts_move(a, r->attempt.job, JOB_LAUNCHING, JOB_RUNNING, NULL, e);
    if (rc >= 0) {
        watch_time(a, r, now); /* remembers the job's start now, since somebody may set the clock
                                  later */
    }
    return rc;
}

/* Fails the attempt if a rank is over its deadline. */
static void watch_ranks(struct run *r, double now)
{
    char quoted[400];
    if (!r->monitor || r->failed || !monitor_lost(r->monitor, now, &r->failure)) {
        return;
    }
    r->failed = true;
    log_warn("sched", "a rank is lost, the attempt ends", "job=%s attempt=%d why=%s",
             r->attempt.job, r->attempt.number,
             log_quote(quoted, sizeof quoted, r->failure.message));
    stop_process(r, 0.5);
}

/* Ends the process if the ranks have reported their end but it does not end by itself. */
static void watch_end(struct run *r, double now)
{
    if (!r->monitor || !monitor_outcome(r->monitor)) {
        return;
    }
    /* guards of workers that died hold mpirun up until it is stopped */
    bool held_up = monitor_lost_some(r->monitor) && monitor_all_done(r->monitor);
    if (r->ended_at == 0) {
        r->ended_at = now;
    } else if (now - r->ended_at > (held_up ? 0 : ended_patience)) {
        stop_process(r, stop_grace);
    }
}

/* Is an attempt over whose process is not on this host? Yes when its ranks say so, or when one of
 * them is lost. A virtual attempt has no ranks; its files tell. */
static bool is_over_elsewhere(struct attempts *a, struct run *r, double now)
{
    r->end.exit_code = -1;
    if (r->launcher == a->simulator) {
        return run_virtual_silent(a, r, now);
    }
    return r->failed || (r->ended_at > 0 && now - r->ended_at > last_words_seconds);
}

static bool poll_process(struct attempts *a, struct run *r, double now)
{
    if (r->elsewhere) {
        r->over = r->over || is_over_elsewhere(a, r, now);
    } else if (!r->over && r->launcher->poll(r->launcher->ctx, &r->attempt, &r->end)) {
        r->over = true;
        stop_process(r, 0); /* stragglers and leftovers */
    }
    return r->over;
}

/* ---- the turn -------------------------------------------------------------------------------- */

/* The job's state as the scheduler last saw it. For a newer run, or after a change, the store is
 * asked. */
static int read_state(struct attempts *a, const struct run *r, const struct store_overview *seen,
                      enum job_state *state, struct err *e)
{
    for (size_t i = 0; seen && i < seen->n_asked; i++) {
        const struct seen_job *job = &seen->asked[i];
        if (job->state >= 0 && strcmp(job->id, r->attempt.job) == 0) {
            *state = (enum job_state)job->state;
            return 0;
        }
    }
    return store_job_state(a->store, r->attempt.job, state, e);
}

/* A turn of an attempt without a process: that waits until the monitor has read what earlier
 * attempts left (queue/launch.c). */
static int await_process(struct attempts *a, struct run *r, bool wanted, double now, struct err *e)
{
    if (wanted && !run_is_draining(a, r)) {
        return RUN_GOES_ON;
    }
    r->over = true;
    return run_finish(a, r, now, e);
}

int run_tick(struct attempts *a, struct run *r, const struct store_overview *seen, double now,
             struct err *e)
{
    enum job_state state = JOB_RUNNING;
    struct err trouble = {0};
    if (r->over || (r->failed && !r->attempt.pid)) {
        return poll_process(a, r, now) ? run_finish(a, r, now, e) : RUN_GOES_ON;
    }
    int rc = read_state(a, r, seen, &state, e);
    if (rc == -ERR_NOT_FOUND) {
        stop_process(r, stop_grace);
        err_clear(e);
    } else if (rc < 0) {
        return rc;
    }
    if (r->first) {
        return await_process(a, r, rc >= 0 && state != JOB_CANCELLING, now, e);
    }
    if (poll_process(a, r, now)) {
        return run_finish(a, r, now, e);
    }
    note_requests(a, r, state, now);
    r->unrecorded = r->unrecorded && attempts_record(a, r, NULL) < 0;
    if (r->launcher == a->simulator) {
        run_virtual_tick(a, r);
    }
    /* a full disk must not keep a user from stopping the job, so it is reported at the end of the
     * turn */
    if (r->monitor && monitor_tick(r->monitor, now, &trouble) < 0 &&
        attempts_store_away(&trouble)) {
        *e = trouble;
        run_enforce(r, now);
        return -(int)trouble.code;
    }
    users_watch(a, r);
    watch_ranks(r, now);
    watch_time(a, r, now);
    watch_pace(a, r, now);
    watch_end(r, now);
    rc = follow_requests(a, r, state, now, e);
    if (rc >= 0) {
        rc = watch_states(a, r, state, now, e);
    }
    if (rc >= 0 && trouble.code) {
        *e = trouble;
        rc = -(int)trouble.code;
    }
    return rc < 0 ? rc : RUN_GOES_ON;
}

/* The tick of the sweeps: see sweeps.h. */
#include "coordinator/sweeps/sweeps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/sweeps/advance.h"
#include "http/rights/limits.h"
#include "job/sweep/record.h"
#include "store/sweeps.h"

enum { AT_ONCE = 32 }; /* jobs that one sweep submits in a tick */
static const double tick_seconds = 0.5;

/* One sweep, during a tick. */
struct turn {
    struct store *store;
    struct quotas *quotas;
    const char *id; /* borrowed */
    struct sweep_record kept;
    bool changed; /* the list of runs must be written */
    bool acted;   /* jobs were queued or cancelled */
};

/* ---- submitting ------------------------------------------------------------------------------ */

/* The job's spec with its defaults, and its priority. NULL with ERR_INVALID. */
static json_t *full_spec(const struct turn *t, const struct advance *next, int *priority,
                         struct err *e)
{
    int failed;
    const char *before = next->before >= 0 ? t->kept.runs.all[next->before].job : NULL;
    json_t *given = sweep_run_spec(&t->kept.sweep, t->id, next->run, before, &failed), *full = NULL;
    struct jobspec *spec = given ? calloc(1, sizeof *spec) : NULL;
    if (!spec) {
        err_set(e, given ? ERR_MEMORY : ERR_INVALID, "cannot make the spec of a trial");
    } else if (jobspec_read(spec, given, e) == 0) {
        full = json_incref(spec->json);
        *priority = spec->priority;
    }
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    json_decref(given);
    return full;
}

/* Queues a job if the owner's quota has room for it; else ERR_QUOTA. */
static int queue_job(struct turn *t, const json_t *spec, int priority, char id[STORE_ID],
                     struct err *e)
{
    char key[ADVANCE_KEY];
    const char *owner = t->kept.owner[0] ? t->kept.owner : NULL;
    struct limits_place place;
    struct quota quota;
    quotas_find(owner ? t->quotas : NULL, t->kept.owner, &quota);
    advance_key(key, t->id, t->kept.runs.n);
    int rc = limits_enter_as(t->kept.owner, &quota, t->store, key, &place, e);
    if (rc == 0) {
        rc = store_job_create(t->store, spec, priority, key, owner, id, e);
        limits_leave(&place);
    }
    return rc;
}

/* Submits the next trial. A trial that this version of the program refuses counts as failed. */
static int submit(struct turn *t, const struct advance *next, struct err *e)
{
    int priority = 0, rc = -ERR_INVALID;
    struct sweep_run *run = &t->kept.runs.all[t->kept.runs.n];
    json_t *spec = full_spec(t, next, &priority, e);
    *run = (struct sweep_run){.state = JOB_QUEUED, .metric = NAN};
    if (spec) {
        rc = queue_job(t, spec, priority, run->job, e);
    } else if (e->code == ERR_INVALID) {
        log_warn("sweeps", "a trial is refused", "sweep=%s trial=%d why=\"%s\"", t->id,
                 next->run.trial + 1, e->message);
        run->state = JOB_FAILED;
        rc = 0;
    }
    json_decref(spec);
    t->kept.runs.n += rc >= 0;
    t->changed |= rc >= 0;
    t->acted |= rc >= 0;
    return rc;
}

/* ---- a sweep's turn -------------------------------------------------------------------------- */

/* Takes over what the store says of the jobs that have not ended. */
static int note(struct turn *t, struct err *e)
{
    json_t *ids = json_array();
    for (int i = 0; i < t->kept.runs.n; i++) {
        if (!jobstate_ended(t->kept.runs.all[i].state)) {
            json_array_append_new(ids, json_string(t->kept.runs.all[i].job));
        }
    }
    json_t *jobs =
        json_array_size(ids) ? store_jobs_of(t->store, ids, "state,metrics,logged", e) : ids;
    if (jobs) {
        t->changed |= advance_note(&t->kept.sweep, &t->kept.runs, jobs);
    }
    if (jobs != ids) {
        json_decref(jobs);
    }
    json_decref(ids);
    return jobs ? 0 : -(int)e->code;
}

static int cancel_all(struct turn *t, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < t->kept.runs.n; i++) {
        enum job_state state = t->kept.runs.all[i].state;
        if (jobstate_ended(state) || state == JOB_CANCELLING) {
            continue;
        }
        rc = store_job_request(t->store, t->kept.runs.all[i].job, "cancel", e);
        t->acted = true;
        rc = rc == -ERR_NOT_FOUND || rc == -ERR_CONFLICT ? 0 : rc; /* the job ended meanwhile */
    }
    return rc;
}

static int advance_sweep(struct turn *t, enum sweep_state *to, struct err *e)
{
    int rc = 0;
    *to = t->kept.state;
    for (int i = 0; rc >= 0 && i < AT_ONCE; i++) {
        struct advance next =
            advance_next(&t->kept.sweep, &t->kept.runs, t->kept.state == SWEEP_CANCELLING);
        if (next.what == ADVANCE_WAIT) {
            break;
        }
        if (next.what == ADVANCE_CANCEL) {
            return cancel_all(t, e);
        }
        if (next.what == ADVANCE_END) {
            *to = next.to;
            break;
        }
        rc = submit(t, &next, e);
    }
    return rc == -ERR_QUOTA ? 0 : rc; /* it waits */
}

/* One turn of a sweep. The list of submitted jobs is written even if something fails after them. */
static int turn(struct turn *t, struct err *e)
{
    enum sweep_state to = t->kept.state;
    struct err why = {0};
    int rc = note(t, e);
    if (rc >= 0) {
        rc = advance_sweep(t, &to, e);
    }
    if (t->changed || to != t->kept.state) {
        json_t *jobs = sweep_runs_json(&t->kept.runs);
        int written = store_sweep_change(t->store, t->id, jobs, t->kept.state, to, &why);
        json_decref(jobs);
        if (rc >= 0 && written < 0 && written != -ERR_NOT_FOUND) {
            *e = why;
            return written;
        }
    }
    if (rc >= 0 && to != t->kept.state) {
        log_info("sweeps", "a sweep has ended", "sweep=%s state=%s jobs=%d", t->id,
                 sweep_state_name(to), t->kept.runs.n);
    }
    return rc;
}

static int turn_of(struct sweeps *s, const char *id, bool *acted, struct err *e)
{
    json_t *kept = store_sweep_get(s->store, id, e);
    struct turn *t = kept ? calloc(1, sizeof *t) : NULL;
    int rc = t ? 0 : kept ? err_set(e, ERR_MEMORY, "memory ran out") : -(int)e->code;
    if (rc == 0) {
        t->store = s->store;
        t->quotas = s->quotas;
        t->id = id;
        if ((rc = sweep_record_read(&t->kept, kept, e)) >= 0 && !sweep_state_ended(t->kept.state)) {
            rc = turn(t, e);
        }
        *acted |= t->acted;
        sweep_record_release(&t->kept);
    }
    free(t);
    json_decref(kept);
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

static void complain(struct sweeps *s, const char *id, const struct err *e)
{
    char quoted[600];
    if (!s->away) {
        log_warn("sweeps", "a sweep does not advance, it is tried again", "sweep=%s why=%s", id,
                 log_quote(quoted, sizeof quoted, e->message));
    }
    s->away = true;
}

bool sweeps_tick(struct sweeps *s, double now)
{
    struct err e = {0};
    bool acted = false, failed = false;
    size_t i;
    json_t *id;
    if (now < s->due) {
        return false;
    }
    s->due = now + tick_seconds;
    json_t *open = store_sweeps_open(s->store, &e);
    if (!open) {
        complain(s, "", &e);
        return false;
    }
    json_array_foreach(open, i, id) {
        if (turn_of(s, json_string_value(id), &acted, &e) < 0) {
            complain(s, json_string_value(id), &e);
            failed = true;
        }
    }
    s->away = failed;
    json_decref(open);
    return acted;
}

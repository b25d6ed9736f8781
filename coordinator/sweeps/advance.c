/* What a sweep does next: see advance.h. */
#include "coordinator/sweeps/advance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "job/documents/people/live.h"

static const json_t *find_job(const json_t *jobs, const char *id)
{
    size_t i;
    json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        if (strcmp(jsonx_string_at(job, "id"), id) == 0) {
            return job;
        }
    }
    return NULL;
}

static bool is_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 0;
}

bool advance_note(const struct sweep *s, struct sweep_runs *runs, const json_t *jobs)
{
    bool changed = false;
    for (int i = 0; i < runs->n; i++) {
        struct sweep_run *r = &runs->all[i], now = *r;
        if (jobstate_ended(r->state)) {
            continue;
        }
        const json_t *job = find_job(jobs, r->job);
        int state = jobstate_find(jsonx_string_at(job, "state"));
        if (!job) {
            now.state = JOB_CANCELLED;
        } else if (state >= 0) {
            now.state = (enum job_state)state;
            now.metric = live_metric(job, s->metric);
        }
        changed |= now.state != r->state || !is_same(now.metric, r->metric);
        *r = now;
    }
    return changed;
}

/* ---- the budget ------------------------------------------------------------------------------ */

/* Is there room for one more job? A job that asks for more nodes than the budget has runs alone. */
static bool has_room(const struct sweep *s, const struct sweep_runs *runs, int trial)
{
    struct sweep_rung rung;
    int active = 0, nodes = 0;
    for (int i = 0; sweep_rung_get(s, runs, i, &rung); i++) {
        for (int at = rung.first; at < rung.first + rung.n * s->seeds && at < runs->n; at++) {
            if (!jobstate_ended(runs->all[at].state)) {
                active++;
                nodes += sweep_workers(s, rung.trials[(at - rung.first) / s->seeds]);
            }
        }
    }
    return active < s->parallel &&
           (s->nodes == 0 || active == 0 || nodes + sweep_workers(s, trial) <= s->nodes);
}

/* ---- what comes next ------------------------------------------------------------------------- */

static bool has_ended(const struct sweep_runs *runs)
{
    for (int i = 0; i < runs->n; i++) {
        if (!jobstate_ended(runs->all[i].state)) {
            return false;
        }
    }
    return true;
}

struct advance advance_next(const struct sweep *s, const struct sweep_runs *runs, bool cancelling)
{
    struct advance out = {.what = ADVANCE_WAIT, .before = -1};
    double score;
    if (cancelling) {
        out.what = has_ended(runs) ? ADVANCE_END : ADVANCE_CANCEL;
        out.to = SWEEP_CANCELLED;
        return out;
    }
    switch (sweep_next(s, runs, &out.run, &out.before)) {
    case SWEEP_SUBMIT:
        out.what = has_room(s, runs, out.run.trial) ? ADVANCE_SUBMIT : ADVANCE_WAIT;
        break;
    case SWEEP_WAIT:
        break;
    case SWEEP_DONE:
        out.what = ADVANCE_END;
        out.to = sweep_best(s, runs, &score) >= 0 ? SWEEP_SUCCEEDED : SWEEP_FAILED;
        break;
    }
    return out;
}

void advance_key(char out[ADVANCE_KEY], const char *sweep, int place)
{
    snprintf(out, ADVANCE_KEY, "sweep %.20s %d", sweep, place);
}

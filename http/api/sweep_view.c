/* Shows a sweep: see sweep_view.h. Everything is computed from the document and the list of jobs. A
 * job's place in the list says to which trial it belongs. */
#include "http/api/sweep_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "job/documents/document.h"
#include "job/sweep/record.h"

struct view {
    struct sweep_record kept;
    struct sweep_rung rungs[SWEEP_RUNGS];
    int n_rungs; /* rungs that are known */
};

/* ---- a trial --------------------------------------------------------------------------------- */

static int place_of(const struct sweep_rung *rung, int trial)
{
    for (int i = 0; i < rung->n; i++) {
        if (rung->trials[i] == trial) {
            return i;
        }
    }
    return -1;
}

static json_t *job_json(const struct view *v, int rung, int seed, int at)
{
    const struct sweep_run *r = &v->kept.runs.all[at];
    return json_pack("{s:o, s:i, s:i, s:s, s:o}", "id",
                     r->job[0] ? json_string(r->job) : json_null(), "rung", rung + 1, "seed",
                     seed + 1, "state", jobstate_name(r->state), "metric",
                     document_real(r->metric));
}

/* Appends the jobs of a trial in one rung. Returns how many. */
static int append_jobs(const struct view *v, int rung, int place, json_t *jobs)
{
    int n = 0;
    for (int seed = 0; seed < v->kept.sweep.seeds; seed++) {
        int at = v->rungs[rung].first + place * v->kept.sweep.seeds + seed;
        if (at < v->kept.runs.n) {
            json_array_append_new(jobs, job_json(v, rung, seed, at));
            n++;
        }
    }
    return n;
}

/* The state of a trial. `rung`: the highest rung with a job of it; -1: none has one. */
static const char *state_of(const struct view *v, int rung, int place, bool ended,
                            const struct sweep_score *score)
{
    if (rung < 0) {
        return ended ? "cancelled" : "waiting";
    }
    bool failed = false;
    for (int seed = 0; seed < v->kept.sweep.seeds; seed++) {
        int at = v->rungs[rung].first + place * v->kept.sweep.seeds + seed;
        if (at >= v->kept.runs.n ? !ended : !jobstate_ended(v->kept.runs.all[at].state)) {
            return "running";
        }
        failed |= at < v->kept.runs.n && v->kept.runs.all[at].state == JOB_FAILED;
    }
    if (!score->counts) { /* a job that succeeded without a metric is a failed trial */
        for (int seed = 0; seed < v->kept.sweep.seeds; seed++) {
            int at = v->rungs[rung].first + place * v->kept.sweep.seeds + seed;
            if (at >= v->kept.runs.n || v->kept.runs.all[at].state == JOB_CANCELLED) {
                return failed ? "failed" : "cancelled";
            }
        }
        return "failed";
    }
    return rung < v->kept.sweep.n_rungs - 1 && v->rungs[rung].closed ? "stopped" : "succeeded";
}

static json_t *trial_json(const struct view *v, int trial, bool ended)
{
    struct sweep_score score = {false, 0, 0};
    json_t *jobs = json_array();
    int rung = -1, place = -1;
    for (int i = 0; i < v->n_rungs; i++) {
        int at = place_of(&v->rungs[i], trial);
        if (at >= 0 && append_jobs(v, i, at, jobs) > 0) {
            rung = i;
            place = at;
        }
    }
    if (rung >= 0) {
        score = sweep_score_of(&v->kept.sweep, &v->kept.runs, &v->rungs[rung], place);
    }
    return json_pack("{s:i, s:o, s:s, s:i, s:o, s:o, s:o}", "number", trial + 1, "settings",
                     sweep_settings(&v->kept.sweep, trial), "state",
                     state_of(v, rung, place, ended, &score), "rung", rung + 1, "metric",
                     rung < 0 ? json_null() : document_real(score.mean), "spread",
                     rung < 0 ? json_null() : document_real(score.spread), "jobs", jobs);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static json_t *best_json(const struct view *v)
{
    double score = 0;
    int trial = sweep_best(&v->kept.sweep, &v->kept.runs, &score);
    return trial < 0 ? json_null()
                     : json_pack("{s:i, s:f, s:o}", "trial", trial + 1, "metric", score, "settings",
                                 sweep_settings(&v->kept.sweep, trial));
}

static json_t *counts_json(const struct view *v)
{
    int ended = 0, failed = 0;
    for (int i = 0; i < v->kept.runs.n; i++) {
        ended += jobstate_ended(v->kept.runs.all[i].state);
        failed += v->kept.runs.all[i].state == JOB_FAILED;
    }
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "trials", v->kept.sweep.trials, "jobs",
                     v->kept.runs.n, "active", v->kept.runs.n - ended, "ended", ended, "failed",
                     failed);
}

static json_t *print(const struct view *v, const json_t *kept, bool whole)
{
    static const char *const keys[] = {"parameters", "method", "metric",
                                       "parallel",   "nodes",  "seeds"};
    json_t *out = json_object();
    sweep_record_show(kept, out);
    json_object_set(out, "name", json_object_get(v->kept.sweep.json, "name"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_object_set(out, keys[i], json_object_get(v->kept.sweep.json, keys[i]));
    }
    json_object_set_new(out, "counts", counts_json(v));
    json_object_set_new(out, "best", best_json(v));
    if (whole) {
        json_t *trials = json_array();
        for (int i = 0; i < v->kept.sweep.trials; i++) {
            json_array_append_new(trials, trial_json(v, i, sweep_state_ended(v->kept.state)));
        }
        json_object_set(out, "spec", json_object_get(v->kept.sweep.json, "spec"));
        json_object_set_new(out, "trials", trials);
    }
    return out;
}

json_t *sweep_view(const json_t *kept, bool whole, struct err *e)
{
    struct view *v = calloc(1, sizeof *v);
    json_t *out = NULL;
    if (!v) {
        err_set(e, ERR_MEMORY, "cannot show the sweep: memory ran out");
        return NULL;
    }
    if (sweep_record_read(&v->kept, kept, e) >= 0) {
        while (sweep_rung_get(&v->kept.sweep, &v->kept.runs, v->n_rungs, &v->rungs[v->n_rungs])) {
            v->n_rungs++;
        }
        out = print(v, kept, whole);
    }
    sweep_record_release(&v->kept);
    free(v);
    return out;
}

/* ---- before it is started -------------------------------------------------------------------- */

enum { PLAN_SETTINGS = 20 };

json_t *sweep_plan(const struct sweep *s)
{
    json_t *rungs = json_array(), *settings = json_array();
    int trials = s->trials, jobs = 0;
    for (int i = 0; i < s->n_rungs; i++) {
        trials = i > 0 ? sweep_kept(s, trials) : trials;
        jobs += trials * s->seeds;
        json_array_append_new(
            rungs, json_pack("{s:i, s:o}", "trials", trials, "epochs",
                             s->method == SWEEP_HALVING ? json_integer(s->rungs[i]) : json_null()));
    }
    for (int i = 0; i < s->trials && i < PLAN_SETTINGS; i++) {
        json_array_append_new(settings, sweep_settings(s, i));
    }
    return json_pack("{s:b, s:i, s:i, s:o, s:o}", "valid", 1, "trials", s->trials, "jobs", jobs,
                     "rungs", rungs, "settings", settings);
}

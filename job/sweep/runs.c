/* Computes what follows from the jobs of a sweep: see runs.h. Successive halving is that of
 * Jamieson and Talwalkar (2016): of n trials in a rung, the best n/eta (rounded down, at least one)
 * go on. A trial whose jobs did not all succeed with a finite metric does not go on; of equal ones,
 * the earlier does.
 */
#include "job/sweep/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/documents/document.h"

/* ---- reading and writing --------------------------------------------------------------------- */

json_t *sweep_runs_json(const struct sweep_runs *runs)
{
    json_t *list = json_array();
    for (int i = 0; i < runs->n; i++) {
        const struct sweep_run *r = &runs->all[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "job", r->job, "state",
                                              jobstate_name(r->state), "metric",
                                              document_real(r->metric)));
    }
    return list;
}

int sweep_runs_read(struct sweep_runs *runs, const json_t *json, struct err *e)
{
    size_t i;
    const json_t *one;
    runs->n = 0;
    if (!json_is_array(json) || json_array_size(json) > SWEEP_RUNS) {
        return err_set(e, ERR_DATA, "the jobs of a sweep are not a list of at most %d", SWEEP_RUNS);
    }
    json_array_foreach((json_t *)json, i, one) {
        const json_t *metric = json_object_get(one, "metric");
        int state = jobstate_find(jsonx_string_at(one, "state"));
        struct sweep_run *r = &runs->all[runs->n++];
        if (state < 0) {
            return err_set(e, ERR_DATA, "job %zu of a sweep has no state", i);
        }
        snprintf(r->job, sizeof r->job, "%s", jsonx_string_at(one, "job"));
        r->state = (enum job_state)state;
        r->metric = json_is_number(metric) ? json_number_value(metric) : NAN;
    }
    return 0;
}

/* ---- rungs ----------------------------------------------------------------------------------- */

int sweep_kept(const struct sweep *s, int trials)
{
    return trials / s->eta > 1 ? trials / s->eta : 1;
}

static bool is_better(const struct sweep *s, double a, double b)
{
    return s->greatest ? a > b : a < b;
}

struct sweep_score sweep_score_of(const struct sweep *s, const struct sweep_runs *runs,
                                  const struct sweep_rung *rung, int place)
{
    struct sweep_score out = {true, NAN, NAN};
    double sum = 0, squares = 0;
    int n = 0;
    for (int seed = 0; seed < s->seeds; seed++) {
        int at = rung->first + place * s->seeds + seed;
        const struct sweep_run *r = at < runs->n ? &runs->all[at] : NULL;
        bool has = r && isfinite(r->metric);
        out.counts &= has && r->state == JOB_SUCCEEDED;
        sum += has ? r->metric : 0;
        n += has;
    }
    out.mean = n ? sum / n : NAN;
    for (int seed = 0; seed < s->seeds && n > 1; seed++) {
        int at = rung->first + place * s->seeds + seed;
        double off = at < runs->n ? runs->all[at].metric - out.mean : NAN;
        squares += isfinite(off) ? off * off : 0;
    }
    out.spread = n > 1 ? sqrt(squares / (n - 1)) : NAN;
    return out;
}

/* Finds the rung's best trial that is not taken yet: its index goes into *place. */
static bool find_best(const struct sweep *s, const struct sweep_runs *runs,
                      const struct sweep_rung *rung, const bool *taken, int *place, double *score)
{
    *place = -1;
    for (int i = 0; i < rung->n; i++) {
        struct sweep_score one = sweep_score_of(s, runs, rung, i);
        if (one.counts && !(taken && taken[i]) && (*place < 0 || is_better(s, one.mean, *score))) {
            *place = i;
            *score = one.mean;
        }
    }
    return *place >= 0;
}

/* Fills the rung above a closed one with its trials, in their order. */
static void promote(const struct sweep *s, const struct sweep_runs *runs,
                    const struct sweep_rung *below, struct sweep_rung *out)
{
    bool taken[SWEEP_TRIALS] = {false};
    int keep = sweep_kept(s, below->n), place;
    double score = NAN;
    while (keep-- > 0 && find_best(s, runs, below, taken, &place, &score)) {
        taken[place] = true;
    }
    out->n = 0;
    for (int i = 0; i < below->n; i++) {
        if (taken[i]) {
            out->trials[out->n++] = below->trials[i];
        }
    }
    out->first = below->first + below->n * s->seeds;
}

static bool is_closed(const struct sweep *s, const struct sweep_runs *runs,
                      const struct sweep_rung *rung)
{
    int end = rung->first + rung->n * s->seeds;
    bool closed = runs->n >= end;
    for (int i = rung->first; closed && i < end; i++) {
        closed = jobstate_ended(runs->all[i].state);
    }
    return closed;
}

bool sweep_rung_get(const struct sweep *s, const struct sweep_runs *runs, int rung,
                    struct sweep_rung *out)
{
    if (rung >= s->n_rungs) {
        return false;
    }
    memset(out, 0, sizeof *out);
    for (int i = 0; i < s->trials; i++) {
        out->trials[out->n++] = i;
    }
    out->closed = is_closed(s, runs, out);
    for (int i = 0; i < rung; i++) {
        struct sweep_rung below = *out;
        if (!below.closed) {
            return false;
        }
        promote(s, runs, &below, out);
        out->closed = is_closed(s, runs, out);
    }
    return out->n > 0;
}

int sweep_best(const struct sweep *s, const struct sweep_runs *runs, double *score)
{
    struct sweep_rung rung;
    int place;
    for (int i = s->n_rungs - 1; i >= 0; i--) {
        if (sweep_rung_get(s, runs, i, &rung) && find_best(s, runs, &rung, NULL, &place, score)) {
            return rung.trials[place];
        }
    }
    return -1;
}

/* ---- what comes next ------------------------------------------------------------------------- */

/* The index of the trial's job of a rung in the list. */
static int find_run(const struct sweep *s, const struct sweep_rung *rung, int trial, int seed)
{
    for (int i = 0; i < rung->n; i++) {
        if (rung->trials[i] == trial) {
            return rung->first + i * s->seeds + seed;
        }
    }
    return -1;
}

enum sweep_next sweep_next(const struct sweep *s, const struct sweep_runs *runs,
                           struct sweep_run_id *id, int *before)
{
    struct sweep_rung rung, below = {.n = 0};
    *before = -1;
    for (int i = 0; sweep_rung_get(s, runs, i, &rung); i++) {
        int at = runs->n - rung.first;
        if (at < rung.n * s->seeds && runs->n < SWEEP_RUNS) {
            *id = (struct sweep_run_id){rung.trials[at / s->seeds], i, at % s->seeds};
            *before = i > 0 ? find_run(s, &below, id->trial, id->seed) : -1;
            return SWEEP_SUBMIT;
        }
        if (!rung.closed) {
            return SWEEP_WAIT;
        }
        below = rung;
    }
    return SWEEP_DONE;
}

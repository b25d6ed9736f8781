/* The jobs of a sweep, in the order in which they were submitted, and what follows from them. The
 * coordinator submits and watches them (coordinator/sweeps), and http/ shows them. A sweep keeps
 * nothing but this list: the next trial, the trials of the next rung and the best one are computed
 * from it, so none of them can be lost.
 *
 *   [{"job": ID, "state": "succeeded", "metric": 0.981}, …]
 *
 * The place of a job in the list says which trial, rung and seed it has: the seeds of a trial
 * follow each other, so do the trials of a rung, and a rung begins where the one below ends.
 *
 *   trials 0 1 2 3, two seeds, eta 2:   0 0 1 1 2 2 3 3 │ 1 1 2 2 │ 2 2
 *                                       rung 0            rung 1    rung 2
 */
#ifndef JOB_SWEEP_RUNS_H
#define JOB_SWEEP_RUNS_H

#include "job/state.h"
#include "job/sweep/sweep.h"

enum { SWEEP_JOB = 17, SWEEP_RUNS = 2 * SWEEP_TRIALS };

struct sweep_run {
    char job[SWEEP_JOB];
    enum job_state state; /* the newest known state; a deleted job counts as cancelled */
    double metric;        /* NaN: there is none (yet), or it is not finite */
};
struct sweep_runs {
    struct sweep_run all[SWEEP_RUNS];
    int n;
};

json_t *sweep_runs_json(const struct sweep_runs *runs); /* new reference */
/* ERR_DATA for what is no such list. */
int sweep_runs_read(struct sweep_runs *runs, const json_t *json, struct err *e);

/* ---- what follows from them ------------------------------------------------------------------ */

/* One rung: its trials in the order in which they run, and where its jobs are in the list. */
struct sweep_rung {
    int trials[SWEEP_TRIALS];
    int n;       /* trials */
    int first;   /* index of its first job in runs->all; its submitted jobs go on to the list's
                    end */
    bool closed; /* all its jobs were submitted and have ended */
};
/* Fills in rung number `rung`; false: its trials are not known yet because a rung below it is not
 * closed, or it has no trials. */
bool sweep_rung_get(const struct sweep *s, const struct sweep_runs *runs, int rung,
                    struct sweep_rung *out);

/* How many of a rung's trials go on to the next one, if so many have a result. */
int sweep_kept(const struct sweep *s, int trials);

/* A trial's result in a rung. */
struct sweep_score {
    bool counts;   /* every seed succeeded, with a metric */
    double mean;   /* over the seeds that have a metric; NaN: none has */
    double spread; /* their standard deviation; NaN with fewer than two */
};
/* `place`: of the trial in rung->trials. */
struct sweep_score sweep_score_of(const struct sweep *s, const struct sweep_runs *runs,
                                  const struct sweep_rung *rung, int place);
/* The trial with the best score that counts, of the highest rung that has one; -1: none has. */
int sweep_best(const struct sweep *s, const struct sweep_runs *runs, double *score);

enum sweep_next { SWEEP_SUBMIT, SWEEP_WAIT, SWEEP_DONE };
/* What comes next. Either the job *id is to be submitted and added to the list, going on from
 * *before (an index in the list; -1: from the start); or nothing while jobs run; or nothing any
 * more. The caller checks the budget. */
enum sweep_next sweep_next(const struct sweep *s, const struct sweep_runs *runs,
                           struct sweep_run_id *id, int *before);

#endif

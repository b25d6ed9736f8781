/* A sweep: one job spec tried with several settings. The document, as it is posted and kept:
 *
 *   {"name": "rates",
 *    "spec": {…a job spec…},
 *    "parameters": [{"pointer": "/optimizer/learning_rate", "range": [0.001, 0.1], "scale": "log"},
 *                   {"pointer": "/batching/global_batch", "values": [64, 128]}],
 *    "method": {"type": "random", "trials": 20, "seed": 1},
 *    "metric": {"name": "test_accuracy", "direction": "max"},
 *    "parallel": 2, "nodes": 4, "seeds": 3}
 *
 *   grid      every combination; a range gives `steps` values, its ends among them
 *   random    `trials` combinations that are drawn
 *   halving   `trials` that are drawn run to the epochs of the first rung; the best 1/eta of them
 *             go on from their checkpoints to the epochs of the next one, and so on
 *
 *   trial  one combination of settings          run  one job: a trial, a rung and a seed
 *
 * At most `parallel` jobs are queued or running at a time, and they ask for at most `nodes` nodes
 * in all. With `seeds` each trial runs with so many seeds: the spec's own, and those that follow.
 * A number that is tried in a program's arguments or environment becomes its text. Everything here
 * is pure: which settings a trial has depends on the document alone.
 */
#ifndef JOB_SWEEP_SWEEP_H
#define JOB_SWEEP_SWEEP_H

#include "job/filter.h"
#include "job/spec/spec.h"

enum {
    SWEEP_PARAMETERS = 8,
    SWEEP_VALUES = 100,
    SWEEP_TRIALS = 500,
    SWEEP_SEEDS = 16,
    SWEEP_RUNGS = 8,
    SWEEP_POINTER = 120,
    SWEEP_METRIC = FILTER_PATH
};

enum sweep_scale { SWEEP_LINEAR, SWEEP_LOG, SWEEP_INT, SWEEP_CHOICE };
enum sweep_method { SWEEP_GRID, SWEEP_RANDOM, SWEEP_HALVING };

struct sweep_parameter {
    char pointer[SWEEP_POINTER]; /* RFC 6901, into the spec */
    enum sweep_scale scale;
    const json_t *values; /* SWEEP_CHOICE: an array, borrowed from sweep.json */
    double least, most;   /* the other kinds */
    int steps;            /* values of a range in a grid */
};

struct sweep {
    char name[SPEC_NAME];
    struct sweep_parameter parameters[SWEEP_PARAMETERS];
    int n_parameters;
    enum sweep_method method;
    int trials;                    /* in a grid: the number of combinations */
    uint64_t seed;                 /* seed of the drawing */
    int eta, n_rungs;              /* n_rungs: 1 unless halving */
    int rungs[SWEEP_RUNGS];        /* epochs, rising; of halving only */
    char epochs_at[SWEEP_POINTER]; /* where a program also takes the epochs; "": it takes none */
    short order[SWEEP_TRIALS];     /* for a drawing among few combinations: each comes once */
    int n_order;                   /* 0: there are many, and each trial is drawn by itself */
    char metric[SWEEP_METRIC];     /* a key of the job's `metrics`, or "logged.NAME" */
    bool greatest;                 /* the greatest value is the best */
    int parallel;                  /* jobs at a time */
    int nodes;                     /* nodes that these jobs may ask for in all; 0: no limit */
    int seeds;
    json_t *json; /* the document with its defaults; owned */
};

/* The names of `metric`. A metric that the program logs may stand in their place: "logged.bleu". */
#define SWEEP_METRICS "test_accuracy|best_test_accuracy|test_loss|train_loss|samples_per_second"

/* Checks all but the spec, which is a job's (sweep_run_spec gives what to check). Every mistake
 * goes into `problems`; 0 or negative. `sweep` needs sweep_release either way. */
int sweep_parse(struct sweep *sweep, const json_t *json, struct jsonx_problems *problems);
/* Checks what a sweep requires of its jobs' specs beyond a job's own rules. Pointers are into the
 * spec. */
void sweep_check_run(const struct sweep *sweep, const struct jobspec *spec,
                     struct jsonx_problems *problems);
/* As sweep_parse(), for a document that was checked before. ERR_DATA says what is wrong with it. */
int sweep_read(struct sweep *sweep, const json_t *json, struct err *e);
void sweep_release(struct sweep *sweep);

/* ---- trials (trials.c) ----------------------------------------------------------------------- */

/* The trial's value of one parameter. New reference. */
json_t *sweep_value(const struct sweep *sweep, int trial, int parameter);
/* All values, in the order of the parameters: {"/optimizer/learning_rate": 0.01, …}. */
json_t *sweep_settings(const struct sweep *sweep, int trial);

/* One job of a sweep. */
struct sweep_run_id {
    int trial, rung, seed; /* from 0; seed counts on from the spec's own */
};
/* The spec of the job, which is not checked: settings, seed, name, tag, and the epochs of its rung.
 * `before`: the id of the trial's job of the rung below, whose checkpoint it goes on from; NULL in
 * the first rung. New reference; NULL if a pointer leads nowhere in the spec: *failed is the
 * parameter's number then, and how many there are for `epochs_at`. */
json_t *sweep_run_spec(const struct sweep *sweep, const char *id, struct sweep_run_id run,
                       const char *before, int *failed);
/* Shuffles the combinations if they are few. Call it once the rest of the sweep is read. */
void sweep_shuffle(struct sweep *sweep);
/* The number of nodes for which a job of this trial asks; 0 with a virtual cluster. */
int sweep_workers(const struct sweep *sweep, int trial);

#endif

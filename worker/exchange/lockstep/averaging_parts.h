/* What the two files of strategies that average share: averaging.c says what is due and makes
 * steps, averaging_sums.c makes the averages. */
#ifndef WORKER_EXCHANGE_AVERAGING_PARTS_H
#define WORKER_EXCHANGE_AVERAGING_PARTS_H

#include "worker/exchange/lockstep/averaging.h"
#include "worker/exchange/lockstep/steps/weights.h"
#include "worker/exchange/lockstep/survival/survival.h"

/* The samples since an average. */
struct interval {
    double samples, mine; /* of all workers that average; of this rank */
    double weight;        /* of this rank's gradients */
};

struct averaging {
    struct strategy base;
    struct lockstep l;
    const struct averaging_policy *policy;
    struct interval group_since, all_since; /* since the last average of the group, and of all */
    /* Since the last average of all: what the group has averaged, and this rank's share of it. */
    struct interval in_group, mine_in_group;
    struct allreduce group, all;
    struct survival *survival; /* NULL: a lost worker ends the run */
    bool keeps;                /* it keeps its steps when a worker is lost, because a user's program
                                  made them */
    struct weighing weighing;  /* for the average over all: whose programs have left */
    /* [n] the floats to sum: parameters, optimizer state, statistics, then words or a weight;
     * owned */
    float *sum;
    float *own; /* [n_params + n_stats] this rank's replica while the average is evaluated; owned */
    size_t n_params, n_optim, n_stats;
    float distance; /* of this rank's replica from the last average over all, just before it; NaN:
                       none at this step */
    bool average_loaded; /* the replica's blocks hold the average, `own` the replica */
};

/* All replicas are equal: begins a new interval without samples. */
void averaging_begin_interval(struct averaging *s);

/* All return 0 or more, or a negative error code with e set. */

int averaging_of_group(struct averaging *s, struct err *e);
/* Sums what this rank and the others have measured. */
int averaging_meet(struct averaging *s, struct err *e);
/* Averages over all, after a step or in place of a step that the program would not make
 * (r->leaves). */
int averaging_of_all(struct averaging *s, const struct dev_result *r, double step_seconds,
                     struct err *e);
/* Loads the average into the device's blocks for an evaluation, and saves the replica in `own`;
 * and the reverse. */
int averaging_load(struct averaging *s, struct err *e);
int averaging_load_own(struct averaging *s, struct err *e);
/* Where steps are kept: before a step, goes on without a worker that was lost. */
int averaging_look(struct averaging *s, struct err *e);
/* Where steps are kept: call it with the result `rc` of an exchange with all. Returns enum
 * recovered. */
int averaging_go_on(struct averaging *s, int rc, struct err *e);

#endif

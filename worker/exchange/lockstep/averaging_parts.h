/* What the two files of strategies that average share: averaging.c says what is due and makes
 * steps, averaging_sums.c makes the averages. */
#ifndef WORKER_EXCHANGE_AVERAGING_PARTS_H
#define WORKER_EXCHANGE_AVERAGING_PARTS_H

#include "worker/exchange/lockstep/averaging.h"
#include "worker/exchange/lockstep/steps/weights.h"
#include "worker/exchange/lockstep/survival/survival.h"

/* What was taken since an average. */
struct interval {
    double samples, mine; /* by all who average; by this rank */
    double weight;        /* of this rank's gradients */
};

struct averaging {
    struct strategy base;
    struct lockstep l;
    const struct averaging_policy *policy;
    struct interval group_since, all_since; /* the last average of the group, of all */
    /* Since the last one of all: what the group has averaged, and this rank's share of it. */
    struct interval in_group, mine_in_group;
    struct allreduce group, all;
    struct survival *survival; /* NULL: a lost worker ends the run */
    bool keeps;                /* its steps when one is lost: those of a user's program */
    struct weighing weighing;  /* of the average over all: whose programs have left */
    /* [n] what is summed: parameters, optimizer state, statistics, then words or a weight; owned */
    float *sum;
    float *own; /* [n_params + n_stats] this rank's replica while the average is evaluated; owned */
    size_t n_params, n_optim, n_stats;
    float distance; /* of this rank's replica from the last average over all, just before it; NaN:
                       none at this step */
    bool average_loaded; /* the replica's blocks hold the average, `own` the replica */
};

/* All replicas are equal: nothing was taken since. */
void averaging_begin_interval(struct averaging *s);

/* All return 0 or more, or a negative error code with e set. */

int averaging_of_group(struct averaging *s, struct err *e);
/* This rank tells the others what it has measured. */
int averaging_meet(struct averaging *s, struct err *e);
/* After a step, or in place of the one that the program would not make (r->leaves). */
int averaging_of_all(struct averaging *s, const struct dev_result *r, double step_seconds,
                     struct err *e);
/* Loads the average into the device's blocks for an evaluation, and saves the replica in `own`;
 * and the reverse. */
int averaging_load(struct averaging *s, struct err *e);
int averaging_load_own(struct averaging *s, struct err *e);
/* Before a step, where steps are kept: goes on without a worker that was lost. */
int averaging_look(struct averaging *s, struct err *e);
/* After an exchange with all that ended with `rc`, where steps are kept: enum recovered. */
int averaging_go_on(struct averaging *s, int rc, struct err *e);

#endif

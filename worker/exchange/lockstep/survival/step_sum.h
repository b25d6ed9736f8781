/* One step: the sum of gradients and words over all workers, and the update with it. It also meets
 * what may happen to a worker or its program meanwhile:
 *
 *      step_sum_add, for each bucket
 *      step_sum_make ─► words ─► gradients_update ─┬─► the step is made and agreed upon
 *           ▲                                      ├── a program ended: its rank joins late
 *           │                                      │   (absence.h)
 *           └────────────────── summed again ◄─────┼── a worker is lost or comes back (survival.h)
 *                                                  └── programs leave, or give no gradient
 *                                                      (weights.h)
 *
 * So a strategy that makes one update from one sum in each step needs none of this in its own file
 * (sync.c). Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_STEP_SUM_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_STEP_SUM_H

#include "worker/exchange/lockstep/steps/equal.h"
#include "worker/exchange/lockstep/steps/weights.h"
#include "worker/exchange/lockstep/survival/absence.h"
#include "worker/exchange/lockstep/survival/survival.h"

struct step_sum {
    struct lockstep *l;          /* borrowed */
    struct gradients *gradients; /* owned, as survival */
    struct survival *survival;   /* NULL: a lost worker ends the run */
    struct equal equal;          /* checks that the parameters of all ranks are equal */
    struct absence absence;
    struct weighing weighing; /* of the current sum */
    /* The last step: */
    const float *words; /* [lockstep_words()] sums of the words, until the next step; borrowed */
    double ready;       /* comm_now() when this rank's gradients were complete */
    double compute_s;   /* seconds; also of a gradient that came late */
};

/* Call it on every worker after lockstep_init(), with *s all zero. The caller calls
 * step_sum_close() also when it fails. ERR_MEMORY; on a newcomer also ERR_PEER: it was not let in.
 *  */
int step_sum_open(struct step_sum *s, struct lockstep *l, struct err *e);
void step_sum_close(struct step_sum *s);

/* strategy_ops.on_bucket: a failure is in *e. */
void step_sum_add(struct step_sum *s, const struct work *w, const struct dev_bucket *b, int index,
                  int n_buckets, struct err *e);

enum step_sum_outcome {
    STEP_SUM_MADE,      /* the replica has the update, and lockstep_agree() has taken the words */
    STEP_SUM_RECOVERED, /* a worker was lost or has come back; go on with strategy_ops.next */
    STEP_SUM_FURTHER,   /* it was a further pass over the step before: strategy.once_more */
    STEP_SUM_ALL_LEFT   /* the programs have left: there is no such step */
};
/* strategy_ops.on_gradients, without the row: enum step_sum_outcome, or negative. ERR_DATA: the
 * loss is NaN or infinite. */
int step_sum_make(struct step_sum *s, const struct work *w, const struct dev_result *r,
                  double compute_s, struct err *e);
/* The row of the last step. Loss and accuracy are those of all ranks. Waiting is the time until the
 * gradients of the slowest rank were complete, and exchange is the time after that. */
struct row step_sum_row(const struct step_sum *s, const struct work *w);
/* strategy_ops.on_further. */
int step_sum_make_further(struct step_sum *s, const struct work *w, struct err *e);
/* strategy_ops.any. */
int step_sum_any(struct step_sum *s, bool mine, struct err *e);
/* strategy_ops.on_evaluated. Afterwards the ranks compare their parameters (equal.h). */
int step_sum_evaluate(struct step_sum *s, const struct work *w, const struct dev_result *r,
                      struct err *e);
/* strategy_ops.finish. */
int step_sum_finish(struct step_sum *s, struct err *e);

#endif

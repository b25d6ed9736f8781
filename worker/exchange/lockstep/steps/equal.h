/* Are the replicas of all ranks equal, as `sync` makes them? A user's program can set them apart:
 * it clamps weights on one rank alone, or draws other numbers than the others. Every gradient is
 * then of other parameters than those that it is applied to, and nobody sees it.
 *
 *      rank 0   marks S0 ─┐                      |S0 - mean| > tolerance: an error that names
 *      rank 1   marks S1 ─┼─► sums of S, S² ─►   the tensor (rank_env.differs)
 *      rank 2   marks S2 ─┘
 *
 * A mark is a sum over a range of the parameters with pseudo-random signs, so it shows a change in
 * a single one of some 100,000. Marks of equal replicas may differ a little, since processors round
 * differently. A rank reports itself only if it is off by at least as much as the ranks are on
 * average: the rank that changed its parameters is named, and the others are not. Inside
 * worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_STEPS_EQUAL_H
#define WORKER_EXCHANGE_LOCKSTEP_STEPS_EQUAL_H

#include "worker/exchange/lockstep/steps/lockstep.h"

struct equal {
    struct lockstep *l; /* borrowed; NULL: nothing is compared */
    size_t n;           /* marks */
    float *own, *sums;  /* [n], [2n + 1]: S, S², how many ranks told theirs; owned */
    struct allreduce all;
};

/* Nothing is allocated, and nothing compared, where program.marks is 0 or there is one worker. */
int equal_init(struct equal *q, struct lockstep *l, struct err *e);
void equal_release(struct equal *q);
/* After an evaluation, on all ranks: compares, unless that was done a few steps ago. */
int equal_check(struct equal *q, struct err *e);
/* Called in place of equal_check() where other ranks may have compared already, before a worker was
 * lost. */
void equal_pass_over(struct equal *q);

#endif

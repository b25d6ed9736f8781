/* A rank whose program has ended takes part in the sums of its step with zeros, and adds its
 * gradient in a second sum, before anybody uses the first: the step is late, its result is the
 * same.
 *
 *      rank 0   ▇▇▇▇ gradient ┐        ┌─ parameters, state ─┐              ┌► sum, update
 *      rank 1   ▇▇†  nothing  ├─► sum ─┤  "1 is absent"      ▼  ▇▇▇▇ gradient ├► sum, update
 *      rank 2   ▇▇▇▇ gradient ┘        └─────────────────────── waits ────────┘► sum, update
 *
 * All programs have had the same parameters since the last step, so any rank can give them; the
 * lowest one that is there does. Buckets that were sent before the program ended are in the first
 * sum, the others come with the second.
 *
 * Where programs make several passes in a step, the others may be in one more of them, while the
 * absent rank takes the sum for that of its next step. The words tell. Its next process then makes
 * the passes of the step before, of which the last one counts (rank_env.resume with work.further).
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ABSENCE_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ABSENCE_H

#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/lockstep/steps/lockstep.h"

/* What an absent rank says in place of its time. */
#define ABSENCE_TIME (-1.0)

struct absence {
    struct lockstep *l; /* borrowed, as all */
    struct gradients *gradients;
    struct work work; /* a copy, of the step under way */
    struct dev_result result;
    double (*share)(const struct lockstep *l, const struct work *w); /* what its gradient weighs */
    double compute_s; /* of the gradient, also of one that came late */
    bool under_way;   /* absent ranks are joining */
    bool was_further; /* this rank was absent in the last sum, which was one more pass over the step
                         before */
};

/* gradients_late_fn: lets absent ranks join, if the words tell of any. */
int absence_end(void *ctx, float *words, struct err *e);
/* Between two steps, where lockstep_has_copies(): *own becomes this rank's own state; where its
 * program has ended since the step, parameters, statistics and *own are another rank's, and its
 * next process goes on from them (rank_env.take). All ranks call it; the caller releases *own.
 * ERR_CANCELLED: as lockstep_sum(). ERR_PEER: a worker was lost while one gave its state to
 * another; nothing can be exchanged any more. ERR_PROGRAM: the programs of all ranks have ended. */
int absence_provide(struct lockstep *l, struct own_state *own, struct err *e);
/* After sums that ended with `rc`: they cannot be made again if a worker was lost while another one
 * was joining. Else rc. */
int absence_failed(const struct absence *a, int rc, struct err *e);

#endif

/* What a rank does whose program has ended in the middle of a step. It is absent: it takes part in
 * the sums of the step with zeros. Its next process computes the gradient, and a second sum adds it
 * before any rank uses the first one. So the step is late, and its result is the same.
 *
 *      rank 0   ▇▇▇▇ gradient ┐        ┌─ parameters, state ─┐              ┌► sum, update
 *      rank 1   ▇▇†  nothing  ├─► sum ─┤  "1 is absent"      ▼  ▇▇▇▇ gradient ├► sum, update
 *      rank 2   ▇▇▇▇ gradient ┘        └─────────────────────── waits ────────┘► sum, update
 *
 * The next process needs parameters. All programs have the same ones since the last step, so the
 * lowest rank that is not absent sends its own. Buckets that were sent before the program ended are
 * in the first sum; the others are in the second.
 *
 * Programs may make several passes in a step. Then the other ranks may still be in a further pass
 * of step s when the absent rank believes that the sum is that of step s + 1. It learns it from the
 * words that are summed along. Its next process then repeats the passes of step s, and only the
 * last one counts (rank_env.resume with work.further).
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ABSENCE_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ABSENCE_H

#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/lockstep/steps/lockstep.h"

/* What an absent rank writes to the words in place of its compute time. */
#define ABSENCE_TIME (-1.0)

struct absence {
    struct lockstep *l; /* borrowed, as all pointers here */
    struct gradients *gradients;
    struct work work; /* a copy of the current step's */
    struct dev_result result;
    double (*share)(const struct lockstep *l, const struct work *w); /* the gradient's weight */
    double compute_s; /* compute time of the gradient, also of one that came late */
    bool under_way;   /* the second sum is being made */
    bool was_further; /* this rank was absent in the last sum, and that was a further pass of the
                         step before */
};

/* A gradients_late_fn: makes the second sum if the words tell of absent ranks. */
int absence_end(void *ctx, float *words, struct err *e);
/* Fetches this rank's own state into *own, which the caller releases. All ranks call it between two
 * steps, where lockstep_has_copies(). If the rank's program has ended since the step, it gets
 * parameters, statistics and *own from another rank, and its next process goes on from those
 * (rank_env.take). ERR_CANCELLED: as lockstep_sum(). ERR_PEER: a worker was lost during that
 * transfer, and nothing can be exchanged any more. ERR_PROGRAM: the programs of all ranks have
 * ended. */
int absence_provide(struct lockstep *l, struct own_state *own, struct err *e);
/* Call it with the result of a sum. Returns rc, or -ERR_PEER if a worker was lost during the second
 * sum, which cannot be repeated. */
int absence_failed(const struct absence *a, int rc, struct err *e);

#endif

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
 * sum, the others come with the second. Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_ABSENCE_H
#define WORKER_EXCHANGE_ABSENCE_H

#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/lockstep/lockstep.h"

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
};

/* gradients_late_fn: lets absent ranks join, if the words tell of any. */
int absence_end(void *ctx, float *words, struct err *e);
/* After sums that ended with `rc`: they cannot be made again if a worker was lost while another one
 * was joining. Else rc. */
int absence_failed(const struct absence *a, int rc, struct err *e);

#endif

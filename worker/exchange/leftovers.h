/* Samples that a lost worker was given and has not computed: its slices of steps that were cut in
 * advance (rank_env.ahead), whose other slices the other workers' programs already have. They are
 * handed out again in the same epoch. The epoch gets as many more positions, from `at` on, where
 * the next step is cut:
 *
 *      position    0 … [lost] … [lost] … at ┃ lost ┃ lost ┃ the rest, moved up … samples + count
 *
 * A slice is still a range of positions, and each sample of an epoch still comes once. */
#ifndef WORKER_EXCHANGE_LEFTOVERS_H
#define WORKER_EXCHANGE_LEFTOVERS_H

#include "common/err.h"
#include "job/sample.h"

struct leftover { /* of one loss */
    int64_t epoch, at, count;
    struct slice *of; /* [n] ascending, positions of before; owned */
    int n;
};

struct leftovers {
    struct leftover *all; /* [n] of one epoch, in the order of losses; owned */
    int n;
};

void leftovers_release(struct leftovers *l); /* zeroed is fine */
/* of[n]: of one epoch, whose next step is cut at position `at`; borrowed for the call. */
int leftovers_add(struct leftovers *l, const struct slice *of, int n, int64_t at, struct err *e);
/* Where in the epoch's permutation the sample of this position is. */
int64_t leftovers_position(const struct leftovers *l, int64_t epoch, int64_t at);
/* Is all that lies before `c` computed, once its step is made? Then *out is the same place in an
 * epoch of `samples` without leftovers; else *out is *c. */
bool leftovers_settle(const struct leftovers *l, const struct cursor *c, int64_t samples,
                      struct cursor *out);

#endif

/* Samples that a lost worker was given and has not computed: its slices of steps that were cut in
 * advance (program.ahead), whose other slices the other workers' programs already have. They are
 * handed out again from where the next step is cut, `at`. That epoch gets as many more positions:
 *
 *      position    0 … [lost] … [lost] … at ┃ lost ┃ lost ┃ the rest, moved up … samples + count
 *
 * A slice is still a range of positions, and each sample of an epoch still comes once. Where the
 * programs know the end of the epoch already, its samples come in the next one:
 *
 *      epoch 3     0 … [lost] … [lost] ┃        epoch 4     0 … at ┃ lost, of 3 ┃ the rest …
 */
#ifndef WORKER_EXCHANGE_LEFTOVERS_H
#define WORKER_EXCHANGE_LEFTOVERS_H

#include "common/err.h"
#include "job/sample.h"

struct leftover { /* of one loss */
    int64_t epoch, at, count;
    struct slice *of; /* [n] of this epoch or of earlier ones, positions of before; owned */
    int n;
};

struct leftovers {
    struct leftover *all; /* [n] in the order of losses; owned */
    int n;
};

void leftovers_release(struct leftovers *l); /* zeroed is fine */
/* of[n] come again from position `at` of `epoch` on, where the next step is cut; borrowed for the
 * call. */
int leftovers_add(struct leftovers *l, const struct slice *of, int n, int64_t epoch, int64_t at,
                  struct err *e);
/* Where the sample of this position is: in the permutation of *epoch, which may become an earlier
 * one. */
int64_t leftovers_position(const struct leftovers *l, int64_t *epoch, int64_t at);
/* Is all that lies before `c` computed, once its step is made? Then *out is the same place in an
 * epoch of `samples` without leftovers; else *out is *c. */
bool leftovers_settle(const struct leftovers *l, const struct cursor *c, int64_t samples,
                      struct cursor *out);

#endif

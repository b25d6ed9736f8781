/* Samples that a lost worker was given and has not computed: its slices of steps that were cut in
 * advance (program.ahead). The other workers' programs already have the other slices of these
 * steps. The lost samples are handed out again from `at`, where the next step is cut. That epoch
 * gets as many more positions:
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
    struct slice *of; /* [n] slices of this epoch or earlier ones, in the positions before this
                         loss; owned */
    int n;
};

struct leftovers {
    struct leftover *all; /* [n] in the order of losses; owned */
    int n;
};

void leftovers_release(struct leftovers *l); /* zeroed is fine */
/* The slices of[n] come again from position `at` of `epoch` on, where the next step is cut. They
 * are borrowed for the call. */
int leftovers_add(struct leftovers *l, const struct slice *of, int n, int64_t epoch, int64_t at,
                  struct err *e);
/* The place of this position's sample in the permutation of *epoch, which may become an earlier
 * one. */
int64_t leftovers_position(const struct leftovers *l, int64_t *epoch, int64_t at);
/* Once the step at `c` is made, are all samples before `c` computed? Then *out is the same place in
 * an epoch of `samples` without leftovers; else *out is *c. */
bool leftovers_settle(const struct leftovers *l, const struct cursor *c, int64_t samples,
                      struct cursor *out);

#endif

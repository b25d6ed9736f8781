/* The cursor: which samples come next (docs/semantics.md#samples). An epoch is one seeded
 * permutation of the training samples; the cursor hands out (epoch, start, count) slices of it. The
 * permutation is a function of (seed, epoch) by a keyed bijection, so it is never stored, and any
 * rank finds any position in O(1).
 */
#ifndef JOB_SAMPLE_H
#define JOB_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct slice {
    int64_t epoch;
    int64_t start; /* position in the epoch's permutation */
    int64_t count;
};

struct cursor {
    int64_t samples; /* of an epoch */
    int64_t epochs;  /* epochs to hand out in all */
    int64_t epoch, position;
};

/* Index in the data set of the sample at `position` of an epoch; positions when !shuffle. */
int64_t sample_index(uint64_t seed, int64_t epoch, int64_t position, int64_t samples, bool shuffle);

void cursor_init(struct cursor *c, int64_t samples, int64_t epochs);
bool cursor_done(const struct cursor *c); /* everything was handed out */
/* The next slice of at most `want` samples; never crosses an epoch's end. false when done. */
bool cursor_take(struct cursor *c, int64_t want, struct slice *out);
/* Splits a step's `count` samples in proportion to sizes[0..workers) (sum B), largest remainder,
 * ties to the lower rank; when count == B these are the sizes. A rank may get 0. */
void sample_split(int64_t count, const int *sizes, int workers, int64_t *out);

#endif

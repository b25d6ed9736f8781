/* Read-ahead from disk, for data sets that are larger than memory: asks for samples before their
 * minibatch is gathered. A rank's slices follow each other at one distance as long as the
 * minibatches do not change, so the slices after the hinted one are predictable. While they come as
 * predicted, the number of slices asked for doubles with each slice, so that the disk always has
 * work. After a slice that was not predicted it starts again with one, so that irregular hints cost
 * no reads.
 *
 * Only the pages that are in memory depend on this, never the samples of a minibatch.
 */
#ifndef WORKER_DATA_AHEAD_H
#define WORKER_DATA_AHEAD_H

#include "job/sample.h"
#include "worker/data/dataset.h"

enum { AHEAD_SLICES = 8, AHEAD_BYTES = 32 << 20 };

/* The read-ahead of one part of a data set. */
struct ahead {
    struct slice last; /* last one gathered; count 0: none yet */
    int64_t stride;    /* from the slice before it; 0: unknown */
    int depth;         /* slices that may be asked for, including `last` */
    struct slice asked[AHEAD_SLICES];
    int next; /* where the next one is written */
};

/* Where the samples of a part are. */
struct ahead_from {
    const struct dataset_part *part;
    size_t bytes; /* of one sample */
    uint64_t seed;
    bool shuffle, test;      /* test: position is index */
    const struct once *once; /* which samples do not stay in memory; NULL: all do */
};

/* Tells that slice s is gathered next. */
void ahead_next(struct ahead *a, const struct ahead_from *from, const struct slice *s);
/* Writes the slices that are to be asked for now into `out`, the nearest first, and counts them as
 * asked for; returns how many. */
int ahead_plan(struct ahead *a, const struct ahead_from *from, struct slice out[AHEAD_SLICES]);
/* The same, and asks for them; does not wait. */
void ahead_ask(struct ahead *a, const struct ahead_from *from);

#endif

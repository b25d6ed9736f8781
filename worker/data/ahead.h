/* Read-ahead from disk: which samples are asked for before their minibatch is gathered, for data
 * sets that are larger than memory. A rank's slices follow each other at one distance as long as
 * the minibatches stay as they are, so those after the hinted one can be told beforehand. While
 * they come as told, twice as many are asked for with each slice, so that the disk always has work;
 * a slice that was not foreseen begins with one again, so that hints which jump about cost no
 * reads.
 *
 * Only which pages are in memory depends on this, never which samples a minibatch has. */
#ifndef WORKER_DATA_AHEAD_H
#define WORKER_DATA_AHEAD_H

#include "job/sample.h"
#include "worker/data/dataset.h"

enum { AHEAD_SLICES = 8, AHEAD_BYTES = 32 << 20 };

/* Of one part of a data set. */
struct ahead {
    struct slice last; /* gathered last; count 0: none yet */
    int64_t stride;    /* from the slice before it; 0: not known */
    int depth;         /* slices that may be asked for, `last` included */
    struct slice asked[AHEAD_SLICES];
    int next; /* where the next one is written */
};

/* Where the samples of a part are. */
struct ahead_from {
    const struct dataset_part *part;
    size_t bytes; /* of a sample */
    uint64_t seed;
    bool shuffle, test;      /* test: position is index */
    const struct once *once; /* which samples do not stay in memory; NULL: all do */
};

/* Slice s is gathered next. */
void ahead_next(struct ahead *a, const struct ahead_from *from, const struct slice *s);
/* Writes the slices that are to be asked for now into `out`, the nearest first, and counts them as
 * asked for; returns how many. */
int ahead_plan(struct ahead *a, const struct ahead_from *from, struct slice out[AHEAD_SLICES]);
/* The same, and asks for them; does not wait. */
void ahead_ask(struct ahead *a, const struct ahead_from *from);

#endif

/* How many local steps a round of `hpsgd` has with `k: auto`: as many as hide a reduction. Pure,
 * and fed with what all ranks know, so that all come to the same. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_ROUND_LENGTH_H
#define WORKER_EXCHANGE_LOCKSTEP_ROUND_LENGTH_H

#include <stdint.h>

enum { ROUND_RATIOS = 5, ROUND_MOST = 1000000 };

struct round_length {
    double ratios[ROUND_RATIOS]; /* of the last rounds, a ring; zeroed at the start */
    int n;                       /* measured since the start */
    int64_t most;                /* steps that a round may have, 0: any number */
};

/* The steps of the next round, at most `most`, after one whose reduction took `reduction` seconds
 * and whose slowest step `step`: their ratio, rounded up, at least 1. A ratio of more than three
 * times the median of the last five is taken for that median: one stall of a link must not make the
 * next round as long as it lasted. If it stays, the median follows within three rounds. */
int round_length_next(struct round_length *l, double reduction, double step);

#endif

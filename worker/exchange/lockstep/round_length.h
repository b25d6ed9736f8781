/* How many local steps a round of `hpsgd` has with `k: auto`: as many as hide a reduction. Pure,
 * and computed from what all ranks know, so all get the same number. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_ROUND_LENGTH_H
#define WORKER_EXCHANGE_LOCKSTEP_ROUND_LENGTH_H

#include <stdint.h>

enum { ROUND_RATIOS = 5, ROUND_MOST = 1000000 };

struct round_length {
    double ratios[ROUND_RATIOS]; /* ratios of the last rounds, a ring; zeroed at the start */
    int n;                       /* measured since the start */
    int64_t most;                /* steps that a round may have, 0: any number */
};

/* The number of steps of the next round, at most `most`, after a round whose reduction took
 * `reduction` seconds and whose slowest step took `step`. It is their ratio, rounded up, at least
 * 1. A ratio of more than three times the median of the last five is replaced by that median, so
 * that one stall of a link does not make the next round as long as the stall. If the ratio stays,
 * the median follows within three rounds. */
int round_length_next(struct round_length *l, double reduction, double step);

#endif

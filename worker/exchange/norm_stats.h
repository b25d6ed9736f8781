/* Running statistics of batch norm across ranks (docs/semantics.md#networks-across-workers): means
 * and variances merge through their first two moments.
 *
 *   mean = sum s_i * mean_i        var = sum s_i * (var_i + mean_i^2) - mean^2
 *
 * with shares s_i that sum to 1.
 *
 * `mean_of` [n] tells them apart: for a variance the index of its mean, for a mean -1. Inside
 * worker/exchange only. */
#ifndef WORKER_EXCHANGE_NORM_STATS_H
#define WORKER_EXCHANGE_NORM_STATS_H

#include <stddef.h>
#include <stdint.h>

/* out[n] = share times the moments of stats[n]. */
void norm_stats_weigh(float *out, const float *stats, const int32_t *mean_of, size_t n,
                      float share);
/* stats[n] from moments[n] that were summed. `moments` may be `stats`. */
void norm_stats_settle(float *stats, const float *moments, const int32_t *mean_of, size_t n);
/* into[n] <- (1 - share)*into + share*from, by moments. */
void norm_stats_blend(float *into, const float *from, const int32_t *mean_of, size_t n,
                      float share);

#endif

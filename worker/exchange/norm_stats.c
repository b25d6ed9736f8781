/* Merging of running statistics: see norm_stats.h. A variance is clipped at 0: a difference of sums
 * may fall below by rounding. */
#include "worker/exchange/norm_stats.h"

static float moment(const float *stats, const int32_t *mean_of, size_t i)
{
    float mean = mean_of[i] >= 0 ? stats[mean_of[i]] : 0;
    return stats[i] + mean * mean;
}

void norm_stats_weigh(float *out, const float *stats, const int32_t *mean_of, size_t n, float share)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = share * moment(stats, mean_of, i);
    }
}

void norm_stats_settle(float *stats, const float *moments, const int32_t *mean_of, size_t n)
{
    for (size_t i = 0; i < n;
         i++) { /* a mean is its own moment, so it may be taken from either array */
        float mean = mean_of[i] >= 0 ? moments[mean_of[i]] : 0, value = moments[i] - mean * mean;
        stats[i] = mean_of[i] >= 0 && value < 0 ? 0 : value;
    }
}

void norm_stats_blend(float *into, const float *from, const int32_t *mean_of, size_t n, float share)
{
    for (size_t i = 0; i < n; i++) { /* variances first: they need the means as they were */
        if (mean_of[i] >= 0) {
            float a = into[mean_of[i]], b = from[mean_of[i]], mean = (1 - share) * a + share * b;
            float value = (1 - share) * (into[i] + a * a) + share * (from[i] + b * b) - mean * mean;
            into[i] = value < 0 ? 0 : value;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (mean_of[i] < 0) {
            into[i] = (1 - share) * into[i] + share * from[i];
        }
    }
}

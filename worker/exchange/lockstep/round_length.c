/* How many local steps a round has: see round_length.h. */
#include "worker/exchange/lockstep/round_length.h"

#include <math.h>
#include <string.h>

#include "common/median.h"

enum { RATIOS_LEAST = 3 };
static const double sudden = 3;

/* The median of the ratios; of two in the middle the upper one. */
static double median(const struct round_length *l)
{
    double sorted[ROUND_RATIOS];
    int n = l->n < ROUND_RATIOS ? l->n : ROUND_RATIOS;
    memcpy(sorted, l->ratios, sizeof sorted);
    median_sort(sorted, n);
    return sorted[n / 2];
}

int round_length_next(struct round_length *l, double reduction, double step)
{
    double ratio = step > 0 ? reduction / step : 0, believed = ratio;
    if (l->n >= RATIOS_LEAST && ratio > sudden * median(l)) {
        believed = median(l);
    }
    if (ratio > 0) { /* when the first rounds end, no reduction has been measured yet */
        l->ratios[l->n++ % ROUND_RATIOS] = ratio;
    }
    double k = ceil(believed - 0.001),
           most = l->most > 0 && l->most < ROUND_MOST ? (double)l->most : ROUND_MOST;
    return !(k > 1) ? 1 : (int)fmin(k, most);
}

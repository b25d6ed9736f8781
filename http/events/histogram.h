/* Histograms as Prometheus counts them: how many values were at most each bound, how many there
 * were, and their sum. Any thread may count; a reader may see a value in a bucket before it is in
 * the sum.
 */
#ifndef HTTP_EVENTS_HISTOGRAM_H
#define HTTP_EVENTS_HISTOGRAM_H

#include <stdatomic.h>

#include "common/text/buf.h"

enum { HISTOGRAM_BOUNDS = 12 };

struct histogram {
    const double *bounds;                     /* [HISTOGRAM_BOUNDS], rising; borrowed for ever */
    atomic_long counts[HISTOGRAM_BOUNDS + 1]; /* the last: beyond every bound */
    _Atomic double sum;
};

extern const double histogram_seconds[HISTOGRAM_BOUNDS]; /* 1 ms to 10 s */
extern const double histogram_waits[HISTOGRAM_BOUNDS];   /* 1 s to half a day */
extern const double histogram_counts[HISTOGRAM_BOUNDS];  /* 0 to 1,024 */

void histogram_init(struct histogram *h, const double *bounds);
void histogram_add(struct histogram *h, double value);
long histogram_count(const struct histogram *h);
/* Appends NAME_bucket, NAME_sum and NAME_count; `labels` ('route="/x"', or "") goes into each. */
void histogram_print(const struct histogram *h, struct buf *out, const char *name,
                     const char *labels);

#endif

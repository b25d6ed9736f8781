/* Counting into buckets; see histogram.h. */
#include "http/events/histogram.h"

const double histogram_seconds[HISTOGRAM_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                    0.1,   0.25,   0.5,   1,    2.5,   10};
const double histogram_waits[HISTOGRAM_BOUNDS] = {1,   2,   5,   15,   30,    60,
                                                  120, 300, 900, 3600, 14400, 43200};
const double histogram_counts[HISTOGRAM_BOUNDS] = {0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 256, 1024};

void histogram_init(struct histogram *h, const double *bounds)
{
    *h = (struct histogram){.bounds = bounds};
}

void histogram_add(struct histogram *h, double value)
{
    int i = 0;
    while (i < HISTOGRAM_BOUNDS && !(value <= h->bounds[i])) {
        i++;
    }
    atomic_fetch_add(&h->counts[i], 1);
    double sum = atomic_load(&h->sum);
    while (!atomic_compare_exchange_weak(&h->sum, &sum, sum + value)) {
    }
}

long histogram_count(const struct histogram *h)
{
    long n = 0;
    for (int i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        n += atomic_load(&h->counts[i]);
    }
    return n;
}

void histogram_print(const struct histogram *h, struct buf *out, const char *name,
                     const char *labels)
{
    const char *comma = *labels ? "," : "", *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    long n = 0;
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++) {
        n += atomic_load(&h->counts[i]);
        buf_addf(out, "%s_bucket{%s%sle=\"%.6g\"} %ld\n", name, labels, comma, h->bounds[i], n);
    }
    n += atomic_load(&h->counts[HISTOGRAM_BOUNDS]);
    buf_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %ld\n", name, labels, comma, n);
    buf_addf(out, "%s_sum%s%s%s %.9g\n", name, open, labels, close, atomic_load(&h->sum));
    buf_addf(out, "%s_count%s%s%s %ld\n", name, open, labels, close, n);
}

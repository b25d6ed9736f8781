/* The axis of series: see series_axis.h. */
#include "store/history/series_axis.h"

#include <math.h>
#include <stdlib.h>

enum { TABLE_MOST = 16384 };

const char *const axis_names[AXES] = {"step", "samples", "time"};

static double samples_at(const struct series_axis *x, int64_t step)
{
    int low = 0, high = x->n; /* finds the first entry with a later step */
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (x->step[mid] <= step) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0 || low == x->n) {
        return low ? x->samples[low - 1] : 0;
    }
    double from = (double)x->step[low - 1], width = (double)x->step[low] - from;
    double share = ((double)step - from) / width;
    return x->samples[low - 1] + share * (x->samples[low] - x->samples[low - 1]);
}

double axis_of(const struct series_axis *x, const struct row *row)
{
    return x->kind == AXIS_STEP   ? (double)row->step
           : x->kind == AXIS_TIME ? row->time
                                  : samples_at(x, row->step);
}

/* The table has the samples up to a step: for every step of a short job, for every 64th or fewer of
 * a long one. */
int axis_make_table(struct series_axis *x, struct source *steps, struct err *e)
{
    int64_t n = steps->rows,
            stride = n <= TABLE_MOST ? 1 : PYRAMID_FAN * (n / PYRAMID_FAN / TABLE_MOST + 1);
    x->step = calloc((size_t)(n / stride) + 3, sizeof *x->step);
    x->samples = calloc((size_t)(n / stride) + 3, sizeof *x->samples);
    if (!x->step || !x->samples) {
        return err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    double sum = 0;
    for (int64_t a = 0; a < n; a += stride) {
        int64_t b = a + stride < n ? a + stride : n;
        struct pyramid_bucket bucket;
        pyramid_empty(&bucket);
        source_range(steps, a, b, &bucket);
        if (a == 0 && stride > 1) { /* an entry, so that interpolation begins at the first step */
            struct row first = source_row(steps, 0);
            x->step[x->n] = first.step;
            x->samples[x->n++] = first.batch;
        }
        sum += bucket.samples;
        x->step[x->n] = source_row(steps, b - 1).step;
        x->samples[x->n++] = sum;
    }
    return 0;
}

void axis_release(struct series_axis *x)
{
    free(x->step);
    free(x->samples);
}

void axis_clip(const struct series_axis *x, struct source *s, int64_t *a, int64_t *b)
{
    for (int end = 0; end < 2; end++) {
        double bound = end ? x->to : x->from;
        int64_t low = 0, high = s->rows;
        while (!isnan(bound) && low < high) {
            int64_t mid = low + (high - low) / 2;
            struct row row = source_row(s, mid);
            double at = axis_of(x, &row);
            if (end ? at <= bound : at < bound) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        *(end ? b : a) = isnan(bound) ? (end ? s->rows : 0) : low;
    }
    *b = *b < *a ? *a : *b;
}

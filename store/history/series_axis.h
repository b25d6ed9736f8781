/* The x axis of series: the value of a row on it, and the rows in a range of it. Inside store/
 * only.
 *
 * By samples, the value of a row is the number of samples of all steps up to its own, interpolated
 * linearly from a table of the job's steps.
 */
#ifndef STORE_HISTORY_SERIES_AXIS_H
#define STORE_HISTORY_SERIES_AXIS_H

#include "store/history/source.h"

enum axis { AXIS_STEP, AXIS_SAMPLES, AXIS_TIME, AXES };
extern const char *const axis_names[AXES];

struct series_axis {
    enum axis kind;
    double from, to; /* in units of the axis; NAN: open */
    int64_t *step;   /* [n], owned: samples[i] were used up to step[i]; for AXIS_SAMPLES only */
    double *samples;
    int n;
};

/* Makes the table of AXIS_SAMPLES from the steps of the job. Call it before the others. */
int axis_make_table(struct series_axis *x, struct source *steps, struct err *e);
void axis_release(struct series_axis *x);
double axis_of(const struct series_axis *x, const struct row *row);
/* Indexes [*a, *b) of the rows with from <= x <= to. */
void axis_clip(const struct series_axis *x, struct source *s, int64_t *a, int64_t *b);

#endif

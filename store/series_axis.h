/* The axis of series: where a row stands on it, and which rows lie in a range of it. Inside store/
 * only.
 *
 * By samples, a row stands at the samples of all steps up to its own; those come from a table of the
 * job's steps, with straight lines between its entries.
 */
#ifndef STORE_SERIES_AXIS_H
#define STORE_SERIES_AXIS_H

#include "store/source.h"

enum axis { AXIS_STEP, AXIS_SAMPLES, AXIS_TIME, AXES };
extern const char *const axis_names[AXES];

struct series_axis {
    enum axis kind;
    double from, to; /* in units of the axis; NAN: open */
    int64_t *step;   /* [n], owned: samples[i] were used up to step[i]; of AXIS_SAMPLES */
    double *samples;
    int n;
};

/* For AXIS_SAMPLES, before the others: the table, from the steps of the job. */
int axis_make_table(struct series_axis *x, struct source *steps, struct err *e);
void axis_release(struct series_axis *x);
double axis_of(const struct series_axis *x, const struct row *row);
/* Indexes [*a, *b) of the rows with from <= x <= to. */
void axis_clip(const struct series_axis *x, struct source *s, int64_t *a, int64_t *b);

#endif

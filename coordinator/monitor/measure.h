/* The monitor's arithmetic: means over the last updates, speeds, deadlines. Pure, no store, no
 * clock. */
#ifndef COORDINATOR_MEASURE_H
#define COORDINATOR_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "job/row.h"

enum { MEASURE_UPDATES = 100, MEASURE_STEPS = 32 };

/* The last rows of all workers, enough for the last 100 updates of the model. */
struct recent_rows {
    struct row *rows; /* ring of `size`, owned */
    int size, count, at;
    int64_t step; /* the newest */
    double time;  /* the newest, seconds since the job's start */
};
bool recent_init(struct recent_rows *r, int workers);
void recent_release(struct recent_rows *r);
void recent_add(struct recent_rows *r, const struct row *row);
/* Sample-weighted mean loss over the rows of the last 100 updates; NAN without rows. */
double recent_loss(const struct recent_rows *r);
/* Samples per second of job time over the steps of the last `seconds`, at least one whole step; 0:
 * unknown. */
double recent_speed(const struct recent_rows *r, double seconds);

/* How long a worker's steps take: smoothed parts, and the last 32 durations for the deadline. */
struct step_times {
    double seconds[MEASURE_STEPS];
    int count, at;
    double load, compute, exchange, wait; /* exponential means, of steps over `of` samples */
    int64_t of, other;                    /* minibatches: of most steps, of the last other one */
    double per_second;                    /* samples per second of what the node itself does */
    double exchange_usual;                /* mean over the last few hundred steps */
    int64_t steps;                        /* that were added */
};
void step_times_add(struct step_times *t, const struct row *row);
/* max(3 s, median + 10 times the median absolute deviation) (docs/semantics.md#alive-or-lost);
 * `unknown` before five steps. */
double step_deadline(const struct step_times *t, double unknown);

/* Points for the browsers: at most `most` rows, evenly thinned, whatever came in. */
enum { THIN_MOST = 64 };
struct thinned {
    struct row rows[THIN_MOST];
    int count, most, stride;
    int64_t seen;
};
void thin_reset(struct thinned *t, int most);
void thin_add(struct thinned *t, const struct row *row);

/* Is it `every` seconds since *last? Then *last is now. */
bool measure_due(double *last, double now, double every);

#endif

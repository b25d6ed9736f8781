/* The monitor's arithmetic: see measure.h.
 *
 * Rows of different workers arrive in batches and out of order, so "the last 100 updates" goes by
 * the rows' step numbers, never by arrival. Under `sync` a step has one row per worker, under a
 * server it has one row in all; the same rule fits both.
 */
#include "coordinator/monitor/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/median.h"

enum {
    USUAL_STEPS = 200,
    LATE_STEPS = 2 /* at most so many of the newest steps lack rows, which are still under way */
};

bool recent_init(struct recent_rows *r, int workers)
{
    memset(r, 0, sizeof *r);
    r->size = 3 * MEASURE_UPDATES * (workers > 0 ? workers : 1);
    r->rows = calloc((size_t)r->size, sizeof *r->rows);
    return r->rows != NULL;
}

void recent_release(struct recent_rows *r)
{
    free(r->rows);
    memset(r, 0, sizeof *r);
}

void recent_add(struct recent_rows *r, const struct row *row)
{
    r->rows[r->at] = *row;
    r->at = (r->at + 1) % r->size;
    r->count += r->count < r->size;
    r->step = row->step > r->step ? row->step : r->step;
    r->time = row->time > r->time ? row->time : r->time;
}

double recent_loss(const struct recent_rows *r)
{
    double sum = 0, samples = 0;
    for (int i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        if (row->step > r->step - MEASURE_UPDATES && row->batch > 0 && isfinite(row->loss)) {
            sum += (double)row->loss * row->batch;
            samples += row->batch;
        }
    }
    return samples > 0 ? sum / samples : NAN;
}

struct step_rows { /* the rows of one step */
    int count;
    double end; /* of the step's last row, in seconds since the job's start */
};

static struct step_rows rows_of(const struct recent_rows *r, int64_t step)
{
    struct step_rows found = {.end = -1};
    for (int i = 0; i < r->count; i++) {
        if (r->rows[i].step == step) {
            found.count++;
            found.end = fmax(found.end, r->rows[i].time);
        }
    }
    return found;
}

/* The newest step that has as many rows as the one before it. */
static int64_t last_whole(const struct recent_rows *r)
{
    int64_t step = r->step;
    while (step > r->step - LATE_STEPS && rows_of(r, step).count < rows_of(r, step - 1).count) {
        step--;
    }
    return step;
}

/* The newest step before `last` that ended at `time` or earlier, or the oldest that is kept. */
static int64_t step_before(const struct recent_rows *r, int64_t last, double time)
{
    int64_t oldest = last, newest = -1;
    for (int i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        oldest = row->step < oldest ? row->step : oldest;
        if (row->time <= time && row->step < last && row->step > newest) {
            newest = row->step;
        }
    }
    return newest >= 0 ? newest : oldest;
}

/* It counts whole steps only. Under `sync` the rows of a step end within milliseconds of each
 * other, and those of the newest step may not all have come. */
double recent_speed(const struct recent_rows *r, double seconds)
{
    int64_t last = last_whole(r);
    double end = rows_of(r, last).end, samples = 0;
    int64_t before = step_before(r, last, end - seconds);
    double begin = rows_of(r, before).end;
    for (int i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        samples += row->step > before && row->step <= last ? row->batch : 0;
    }
    return end > begin ? samples / (end - begin) : 0;
}

/* Do the means begin anew? Yes at the second step in a row with another minibatch, since a mean
 * over both sizes would be shown for the new one. A single such step may be the last slice of an
 * epoch. */
static bool begins(struct step_times *t, int64_t batch)
{
    if (t->count == 0 || (batch != t->of && batch == t->other)) {
        t->of = batch;
        t->other = 0;
        return true;
    }
    t->other = batch != t->of ? batch : 0;
    return false;
}

void step_times_add(struct step_times *t, const struct row *row)
{
    double own = row_own_seconds(row);
    double beta = begins(t, row->batch) ? 1.0 : 0.1;
    t->seconds[t->at] = row_step_seconds(row);
    t->at = (t->at + 1) % MEASURE_STEPS;
    t->count += t->count < MEASURE_STEPS;
    t->load += beta * (own - row->compute_seconds - t->load);
    t->compute += beta * (row->compute_seconds - t->compute);
    t->exchange += beta * (row->exchange_seconds - t->exchange);
    t->wait += beta * (row->wait_seconds - t->wait);
    t->steps++;
    t->exchange_usual += (row->exchange_seconds - t->exchange_usual) /
                         (double)(t->steps < USUAL_STEPS ? t->steps : USUAL_STEPS);
    if (own > 0 && row->batch > 0) {
        double speed = row->batch / own;
        t->per_second += (t->per_second > 0 ? beta : 1.0) * (speed - t->per_second);
    }
}

double step_deadline(const struct step_times *t, double unknown)
{
    if (t->count < 5) {
        return unknown;
    }
    double values[MEASURE_STEPS];
    memcpy(values, t->seconds, sizeof(double) * (size_t)t->count);
    double median = median_of(values, t->count);
    for (int i = 0; i < t->count; i++) {
        values[i] = fabs(t->seconds[i] - median);
    }
    double deadline = median + 10 * median_of(values, t->count);
    return deadline > 3 ? deadline : 3;
}

void thin_reset(struct thinned *t, int most)
{
    t->count = 0;
    t->most = most < 1 ? 1 : most > THIN_MOST ? THIN_MOST : most;
    t->stride = 1;
    t->seen = 0;
}

void thin_add(struct thinned *t, const struct row *row)
{
    if (t->seen++ % t->stride != 0) {
        return;
    }
    if (t->count == t->most) { /* drops every second time, and takes only every second one from now
                                  on */
        for (size_t i = 0; 2 * i < (size_t)t->count; i++) {
            t->rows[i] = t->rows[2 * i];
        }
        t->count = (t->count + 1) / 2;
        t->stride *= 2;
        if ((t->seen - 1) % t->stride != 0 || t->count == t->most) {
            return;
        }
    }
    t->rows[t->count++] = *row;
}

bool measure_due(double *last, double now, double every)
{
    if (now - *last < every) {
        return false;
    }
    *last = now;
    return true;
}

/* When minibatches change: see balancer.h.
 *
 *      rows ─► profile ─► steady ─► the equal-finish split (assign.h) ─► is it worth it? ─► current
 *              a + k*b    has it held?                                  gain, rows, noise
 *
 * reason.c says why they change; it compares the latest rows.
 *
 * A prediction has the noise of its lines: for each line the deviation of its steps, divided by the
 * root of the number of remembered steps. Where only noise changes, the slowest of several nodes is
 * one that was measured too slow. So a change must promise a few standard errors. */
#include "job/minibatch/balancer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/median.h"
#include "job/minibatch/reason.h"
#include "job/sample.h"

enum { ENOUGH_ROWS = 4 };
enum { COUNTED = 4 }; /* at most so many steps of a window count as rows */

static const double GAIN =
    0.05; /* a change soon after another one must promise at least this share of a step */
static const double LEAST_GAIN =
    0.02; /* later at least this: a change costs a tenth of a step, and pays for itself in a few
             steps */
static const double ERRORS = 3.5; /* standard errors of the gain: docs/results/bench-balance.md */

int balancer_init(struct balancer *b, const struct batching_spec *batching, int workers,
                  int quantum, const struct profile *const *profiles, const char *const *names,
                  struct err *e)
{
    memset(b, 0, sizeof *b);
    b->batching = *batching;
    b->workers = workers;
    b->quantum = quantum;
    b->gain = GAIN;
    b->errors = ERRORS;
    int rc = assign_first(&b->current, batching, workers, profiles, quantum, e);
    if (rc < 0) {
        return rc;
    }
    b->profiles = calloc((size_t)workers, sizeof *b->profiles);
    b->rows_since = calloc((size_t)workers, sizeof *b->rows_since);
    b->latest = calloc((size_t)workers, sizeof *b->latest);
    b->steady = calloc((size_t)workers, sizeof *b->steady);
    b->windows = calloc((size_t)workers, sizeof *b->windows);
    b->limits = calloc((size_t)workers, sizeof *b->limits);
    if (!b->profiles || !b->rows_since || !b->latest || !b->steady || !b->windows || !b->limits) {
        balancer_release(b);
        return err_set(e, ERR_MEMORY, "cannot balance %d workers: memory ran out", workers);
    }
    for (int i = 0; i < workers; i++) {
        if (profiles && profiles[i]) {
            b->profiles[i] = *profiles[i];
        }
        steady_init(&b->steady[i]);
        snprintf(b->names[i], sizeof b->names[i], "%s", names && names[i] ? names[i] : "a node");
    }
    return 0;
}

int balancer_take_batch(struct balancer *b, int global_batch, struct err *e)
{
    const struct profile *profiles[SPEC_WORKERS];
    struct assignment first;
    int version = b->current.version;
    int64_t sum = 0;
    for (int i = 0; i < b->workers; i++) {
        sum += b->current.sizes[i];
        profiles[i] = b->profiles[i].count > 0 ? &b->profiles[i] : NULL;
    }
    b->batching.global_batch = global_batch;
    if (sum == global_batch) {
        return BALANCE_STANDS;
    }
    int rc = assign_first(&first, &b->batching, b->workers, profiles, b->quantum, e);
    if (rc < 0) {
        return rc;
    }
    first.version = version + 1;
    b->current = first;
    return BALANCE_CHANGED;
}

void balancer_share(const struct balancer *b, int global_batch, int *sizes)
{
    int64_t parts[SPEC_WORKERS];
    sample_split(global_batch, b->current.sizes, b->workers, parts);
    for (int i = 0; i < b->workers; i++) {
        sizes[i] = (int)parts[i];
    }
}

bool balancer_narrow(struct balancer *b, int64_t samples)
{
    int sizes[SPEC_WORKERS], least = b->batching.min_batch < 1 ? 1 : b->batching.min_batch;
    if (samples >= b->batching.global_batch) {
        return false;
    }
    balancer_share(b, (int)samples, sizes);
    for (int i = 0; i < b->workers; i++) {
        if (sizes[i] < least) {
            return false;
        }
    }
    memcpy(b->current.sizes, sizes, (size_t)b->workers * sizeof *sizes);
    b->batching.global_batch = (int)samples;
    return true;
}

void balancer_release(struct balancer *b)
{
    free(b->profiles);
    free(b->rows_since);
    free(b->latest);
    free(b->steady);
    free(b->windows);
    free(b->limits);
    b->profiles = NULL;
    b->rows_since = NULL;
    b->latest = NULL;
    b->steady = NULL;
    b->windows = NULL;
    b->limits = NULL;
}

/* Observes the steps of a window as one observation. */
static void observe(struct balancer *b, int worker, const struct window *w)
{
    const struct limit *limit = &b->limits[worker];
    double seconds = w->sum / w->steps;
    if (limit->seconds > 0 && limit->batch != w->batch) {
        return;
    }
    seconds = fmax(seconds, limit->seconds);
    int counted = w->steps < COUNTED ? w->steps : COUNTED;
    steady_observe(&b->steady[worker], &b->profiles[worker], w->batch, seconds, counted);
    if (w->batch == b->current.sizes[worker]) { /* steps of the old size still come for a while */
        struct latest *l = &b->latest[worker];
        l->count = b->rows_since[worker] == 0 ? 0 : l->count;
        l->seconds[l->count++ % BALANCER_LATEST] = seconds;
        b->rows_since[worker] += counted;
    }
}

void balancer_observe(struct balancer *b, int worker, int batch, double compute_seconds, double now)
{
    struct window full;
    if (worker < 0 || worker >= b->workers || batch <= 0 || !(compute_seconds > 0)) {
        return;
    }
    b->now = now;
    if (window_add(&b->windows[worker], b->window, batch, compute_seconds, now, &full)) {
        observe(b, worker, &full);
    }
}

void balancer_flush(struct balancer *b)
{
    for (int i = 0; i < b->workers; i++) {
        struct window *w = &b->windows[i];
        if (w->steps > 0) {
            observe(b, i, w);
        }
        w->steps = 0;
    }
}

void balancer_limit(struct balancer *b, int worker, int batch, double seconds)
{
    if (worker >= 0 && worker < b->workers) {
        b->limits[worker] = (struct limit){batch, seconds};
    }
}

struct line balancer_line(const struct balancer *b, int worker)
{
    return steady_line(&b->steady[worker], &b->profiles[worker]);
}

/* A step's time with the current minibatch, by the line that counts. */
static double line_seconds(const struct balancer *b, int worker)
{
    struct line line = balancer_line(b, worker);
    return line.a + line.k * b->current.sizes[worker];
}

/* The median of a worker's latest observations with its current minibatch, so that neither a cold
 * first step nor a stall counts as its speed; 0: there is none. */
static double measured(const struct balancer *b, int worker)
{
    const struct latest *l = &b->latest[worker];
    double sorted[BALANCER_LATEST];
    int n = l->count < BALANCER_LATEST ? (int)l->count : BALANCER_LATEST;
    if (b->rows_since[worker] == 0) { /* the ring still has the last minibatch */
        return 0;
    }
    memcpy(sorted, l->seconds, sizeof sorted);
    return median_of(sorted, n);
}

/* The time of a step with the current minibatches, which is the slowest worker's; 0: some worker
 * has not been measured with its own. */
static double measured_step(const struct balancer *b)
{
    double longest = 0;
    for (int i = 0; i < b->workers; i++) {
        double seconds = measured(b, i);
        if (!(seconds > 0)) {
            return 0;
        }
        longest = fmax(longest, seconds);
    }
    return longest;
}

/* Writes the reason. Every worker has been measured. */
static void give_reason(const struct balancer *b, struct assignment *next)
{
    double seconds[SPEC_WORKERS];
    struct line lines[SPEC_WORKERS];
    const char *names[SPEC_WORKERS];
    for (int i = 0; i < b->workers; i++) {
        seconds[i] = measured(b, i);
        lines[i] = balancer_line(b, i);
        names[i] = b->names[i];
    }
    const struct speeds s = {.workers = b->workers,
                             .sizes = b->current.sizes,
                             .seconds = seconds,
                             .lines = lines,
                             .names = names};
    reason_print(&s, next->sizes, next->reason, sizeof next->reason);
}

/* The first worker whose minibatch does not fit into its memory, or -1. */
static int find_overfull(const struct balancer *b)
{
    for (int i = 0; i < b->workers; i++) {
        if (b->profiles[i].max_batch > 0 && b->current.sizes[i] > b->profiles[i].max_batch) {
            return i;
        }
    }
    return -1;
}

/* Standard error of the predicted gain, as a share of a step. The current step takes as long as the
 * slowest worker's; the new one takes the mean of all, weighted by their minibatches. */
static double gain_error(const struct balancer *b, const int *next, int slowest)
{
    double sum = 0;
    for (int i = 0; i < b->workers; i++) {
        double part = (double)next[i] / b->batching.global_batch,
               error = profile_error(&b->profiles[i], b->current.sizes[i]) *
                       (i == slowest ? 1 - part : part);
        sum += error * error;
    }
    return sqrt(sum);
}

/* The gain that a change must promise. It is smaller the more rows speak for the change, but larger
 * than their noise. Every worker has enough rows. */
static double gain_asked(const struct balancer *b, const int *next, int slowest)
{
    int64_t rows = INT64_MAX;
    for (int i = 0; i < b->workers; i++) {
        rows = b->rows_since[i] < rows ? b->rows_since[i] : rows;
    }
    double alone = fmax(b->gain * ENOUGH_ROWS / (double)rows, LEAST_GAIN);
    return fmax(fmin(alone, b->gain), b->errors * gain_error(b, next, slowest));
}

/* Predicts the next assignment by the lines that count; false: the bounds cannot hold the batch. */
static bool predict(const struct balancer *b, struct assignment *next)
{
    double a[SPEC_WORKERS], k[SPEC_WORKERS];
    int most[SPEC_WORKERS];
    for (int i = 0; i < b->workers; i++) {
        struct line line = balancer_line(b, i);
        if (b->profiles[i].count == 0) {
            return false;
        }
        a[i] = line.a;
        k[i] = line.k;
        most[i] = assign_limit(&b->batching, &b->profiles[i]);
    }
    next->predicted_seconds = assign_equal_finish(a, k, most, b->workers, b->batching.global_batch,
                                                  b->batching.min_batch, b->quantum, next->sizes);
    return next->predicted_seconds >= 0;
}

/* The worker with the longest step by its line. */
static int find_slowest(const struct balancer *b, double *seconds)
{
    int slowest = 0;
    *seconds = 0;
    for (int i = 0; i < b->workers; i++) {
        double t = line_seconds(b, i);
        if (t > *seconds) {
            *seconds = t;
            slowest = i;
        }
    }
    return slowest;
}

/* Fills in the seconds of a step before and after, for people. The lines remember more steps than
 * the measured ones and may be above or below them. So the ratio of the lines' predictions is
 * applied to the measured step. */
static void tell_seconds(const struct balancer *b, struct assignment *next)
{
    double fitted;
    find_slowest(b, &fitted);
    next->measured_seconds = measured_step(b);
    if (next->measured_seconds > 0 && fitted > 0) {
        next->predicted_seconds *= next->measured_seconds / fitted;
    }
}

/* Makes `next` the assignment from now on. */
static void adopt(struct balancer *b, struct assignment *next, int overfull, int64_t step)
{
    double fitted_seconds = next->predicted_seconds;
    next->version = b->current.version + 1;
    next->workers = b->workers;
    next->step = step;
    tell_seconds(b, next);
    if (overfull >= 0) {
        snprintf(next->reason, sizeof next->reason, "%s has memory for a minibatch of at most %d",
                 b->names[overfull], b->profiles[overfull].max_batch);
    } else {
        give_reason(b, next);
    }
    for (int i = 0; i < b->workers; i++) {
        steady_follow(&b->steady[i], &b->profiles[i], b->current.sizes[i], fitted_seconds, b->now);
    }
    b->current = *next;
    memset(b->rows_since, 0, (size_t)b->workers * sizeof *b->rows_since);
    b->changes++;
}

static bool is_worth_it(const struct balancer *b, const struct assignment *next)
{
    double seconds;
    int slowest = find_slowest(b, &seconds);
    return next->predicted_seconds < (1 - gain_asked(b, next->sizes, slowest)) * seconds;
}

bool balancer_decide(struct balancer *b, int64_t step)
{
    if (b->batching.policy != BATCH_DYNAMIC || b->workers < 2 || b->batching.global_batch == 0) {
        return false;
    }
    int overfull =
        find_overfull(b); /* such an assignment never comes into force, so no row of it ever
                             comes */
    for (int i = 0; i < b->workers && overfull < 0; i++) {
        if (b->rows_since[i] < ENOUGH_ROWS) {
            return false;
        }
    }
    struct assignment *next = calloc(1, sizeof *next);
    BUG_ON(!next);
    bool better = predict(b, next) && (overfull >= 0 || is_worth_it(b, next));
    if (better) {
        adopt(b, next, overfull, step);
    } else {
        b->kept++;
    }
    free(next);
    return better;
}

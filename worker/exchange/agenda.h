/* When to evaluate and when to write a checkpoint (evaluate.every_*, checkpoint.every_*), counted
 * from a start: the same arithmetic for every strategy. Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_AGENDA_H
#define WORKER_EXCHANGE_AGENDA_H

#include "job/sample.h"
#include "job/spec/spec.h"

struct agenda {
    const struct jobspec *spec; /* borrowed */
    int64_t train_samples;
    int64_t evaluations; /* boundaries that were passed */
    int64_t saved_step;
    double saved_time;
};
void agenda_init(struct agenda *a, const struct jobspec *spec, int64_t train_samples,
                 int64_t applied, int64_t step, double now);
/* True once for each boundary that `applied` samples or `step` updates reached. */
bool agenda_evaluate(struct agenda *a, int64_t applied, int64_t step);
bool agenda_checkpoint(struct agenda *a, int64_t step, double now);
/* Would one of them be true? Changes nothing. */
bool agenda_is_due(const struct agenda *a, int64_t applied, int64_t step, double now);

/* The least distance between two boundaries (epochs, evaluations, checkpoints) that are counted in
 * steps or samples, in steps of `batch` samples. At least 1; INT64_MAX if there are none. */
int64_t agenda_shortest(const struct agenda *a, int batch);

/* The fractional epoch at a slice's start, which schedules follow. */
double slice_epoch(const struct slice *s, int64_t train_samples);

#endif

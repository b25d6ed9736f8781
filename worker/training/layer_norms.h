/* Measures from time to time the lengths of the model's tensors and of their gradients
 * (job/documents/ranks/norms.h), on the lowest remaining rank.
 *
 *     layer_norms_begin ─► compute ┬ layer_norms_bucket … ┬─► layer_norms_end ─► layer_norms_tell
 *                                  └ gradients are ready ─┘                     with the step's row
 *
 * A measurement reads parameters and gradients once, which costs less than an update of the model.
 * The first step is measured, then every 10th step or, if that is longer, every hundredth of the
 * steps so far: some 100 in the first 1,000 steps, 330 in 10,000. On a real clock the pause grows
 * if measuring has cost more than 0.5 % of the run.
 */
#ifndef WORKER_TRAINING_LAYER_NORMS_H
#define WORKER_TRAINING_LAYER_NORMS_H

#include "job/documents/ranks/norms.h"
#include "job/row.h"
#include "worker/engine.h"

struct layer_norms;

/* engine: has its replica; borrowed. NULL: memory ran out. The caller frees. */
struct layer_norms *layer_norms_new(struct engine *engine, struct err *e);
void layer_norms_free(struct layer_norms *l); /* NULL is allowed */
/* Call it before the gradients of this step are computed. `first`: this rank is the lowest that
 * remains. */
void layer_norms_begin(struct layer_norms *l, int64_t local_step, bool first);
/* This bucket's gradients are ready, and were not handed over yet. */
int layer_norms_bucket(struct layer_norms *l, const struct dev_bucket *b, struct err *e);
/* The step is computed. If the device marks no buckets, its gradients are read now. */
int layer_norms_end(struct layer_norms *l, struct err *e);
/* Reports a measurement, if there is one, with step, epoch and time of this row. */
void layer_norms_tell(struct layer_norms *l, const struct row *row, const struct telemetry *t);

#endif

/* The prediction of a dry run: step time, samples/s, time of an epoch and staleness,
 * for its strategy and for the others. */
#ifndef COORDINATOR_PLANNING_PREDICT_H
#define COORDINATOR_PLANNING_PREDICT_H

#include "common/json/jsonx.h"

/* As http_hooks.predict; ctx is a struct dryrun. {"approximate": true, "reason": null, "cluster":
 * {…}, "strategies": [{"strategy", "chosen", "step_seconds", "step_seconds_least",
 * "step_seconds_most", "samples_per_second", "sample_worth", "epoch_seconds", "staleness",
 * "memory_bytes"}]}; the chosen strategy also has "workers": [{"node", "batch", "compute_seconds",
 * "exchange_seconds", "wait_seconds"}]. "cluster" holds the virtual nodes that were simulated, each
 * by its own name, in the form of a spec's `cluster`: whoever changes it and asks for a dry run of
 * the same job on it learns what that change would do. With nodes that were never measured on this
 * network "cluster" is null, "strategies" is empty and "reason" says so. NULL after an error. New
 * reference. */
json_t *predict_job(void *ctx, const json_t *spec, int64_t samples, struct err *e);

#endif

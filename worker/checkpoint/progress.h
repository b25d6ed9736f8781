/* Progress: how far a run has come, as text. The keeper writes it into every checkpoint's metadata
 * and sends it to every rank when a run starts. Only this file reads and writes its keys.
 *
 *   {"version": 700, "applied_samples": 44800,
 *    "cursor": {"samples": 60000, "epochs": 10, "epoch": 0, "position": 44800},
 *    "out": [[epoch, start, count], …],               slices handed out and not applied
 *    "network": "9f…", "optimizer": "sgd", "strategy": "ssp",         what the run trains, and how
 *    "extra": {"staleness": [{…}, …], "best": 0.98, "elapsed": 71.5}}
 *
 * It has no format number: `extra` and its keys are optional, and checkpoints of every version
 * since the first are read.
 */
#ifndef WORKER_CHECKPOINT_PROGRESS_H
#define WORKER_CHECKPOINT_PROGRESS_H

#include "worker/exchange/strategy.h"

struct progress_run { /* identifies the run */
    char network[17]; /* network_hash() */
    char optimizer[32], strategy[32];
};

/* New reference. */
json_t *progress_json(const struct jobspec *spec, const struct run_state *state);
/* Fills version, applied samples, cursor, slices, staleness, best and elapsed of `out`; the caller
 * releases out->staleness. -ERR_DATA if a value is missing or out of range. */
int progress_read(struct run_state *out, struct progress_run *of, const json_t *j, struct err *e);

#endif

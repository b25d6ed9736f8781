/* Checkpoints and artifacts: safetensors files (DESIGN.md decision 11), written under a temporary name, synced, renamed;
 * a checksum in the metadata detects torn or altered files, and the one before is used.
 *
 *   JOBDIR/checkpoints/step-000000001234.safetensors   parameters, optimizer state, statistics, progress
 *   JOBDIR/artifacts/model.safetensors  best.safetensors   parameters and statistics only
 */
#ifndef WORKER_CHECKPOINT_H
#define WORKER_CHECKPOINT_H

#include "worker/exchange/strategy.h"

struct checkpoint { /* what was read; owns its blocks */
    struct run_state state;
    float *params, *optim, *stats;
    json_t *extra;
    char path[4096];
    char optimizer[32], strategy[32]; /* whose state `optim` is */
};
int checkpoint_write(const char *job_dir, const struct jobspec *spec, const struct run_state *state, int keep, char *path, size_t path_bytes, struct err *e);
/* The newest valid one; 0 found, 1 there is none, negative: unreadable folder. Invalid ones are logged and skipped. */
int checkpoint_newest(const char *job_dir, const struct jobspec *spec, struct checkpoint *out, struct err *e);
/* This file, or of a folder the newest valid one of its files. An unusable file is an error here, not passed over. */
int checkpoint_open(const char *path, const struct jobspec *spec, struct checkpoint *out, struct err *e);
void checkpoint_release(struct checkpoint *c);
/* name: "model" or "best". */
int artifact_write(const char *job_dir, const char *name, const struct jobspec *spec, const struct run_state *state, struct err *e);
/* Reads parameters and statistics of `net` from an artifact (or checkpoint): a missing, extra or misshapen tensor is named. stats absent: kept.
 * `how` (NULL: strictly): tensors that its `allow` names may be any of these; then what is there stays, and a line of the log names them.
 * Returns how many were left out. */
int artifact_read(const char *path, const struct network *net, const struct init_spec *how, float *params, float *stats, struct err *e);

#endif

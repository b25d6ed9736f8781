/* Checkpoints: safetensors files (DESIGN.md decision 11), written under a temporary name, synced,
 * renamed; a checksum in the metadata detects torn or altered files, and the one before is used.
 *
 *   JOBDIR/checkpoints/step-000000001234.safetensors   what an artifact holds (artifact.h), and the optimizer's state and the progress
 *            step-….rank-0.….state                         each worker's own state (own_files.h)
 */
#ifndef WORKER_CHECKPOINT_H
#define WORKER_CHECKPOINT_H

#include "worker/exchange/strategy.h"

struct checkpoint { /* what was read; owns its blocks */
    struct run_state state;
    float *params, *optim, *stats;
    struct own_state *own; /* [state.n_own] */
    json_t *extra;
    char path[4096];
    char optimizer[32], strategy[32]; /* whose state `optim` is */
};
int checkpoint_write(const char *job_dir, const struct jobspec *spec, const struct run_state *state,
                     int keep, char *path, size_t path_bytes, struct err *e);
/* The newest valid one; 0 found, 1 there is none, negative: unreadable folder. Invalid ones are
 * logged and skipped. */
int checkpoint_newest(const char *job_dir, const struct jobspec *spec, struct checkpoint *out,
                      struct err *e);
/* This file, or of a folder the newest valid one of its files. An unusable file is an error here,
 * not passed over. */
int checkpoint_open(const char *path, const struct jobspec *spec, struct checkpoint *out,
                    struct err *e);
void checkpoint_release(struct checkpoint *c);
/* Frees the workers' own states alone: programs got them when they joined. */
void checkpoint_drop_own(struct checkpoint *c);

#endif

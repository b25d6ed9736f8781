/* Checkpoints: safetensors files, written under a temporary name, synced, renamed; a checksum in
 * the metadata detects torn or altered files, and the one before is used.
 *
 *   JOBDIR/checkpoints/step-000000001234.safetensors
 *
 * A file holds what an artifact holds (artifact.h), the optimizer's state and the progress; beside
 * it stand the workers' own states, which it names (own_files.h).
 */
#ifndef WORKER_CHECKPOINT_CHECKPOINT_H
#define WORKER_CHECKPOINT_CHECKPOINT_H

#include "worker/checkpoint/progress.h"

struct checkpoint { /* what was read; owns the blocks, the states and state.staleness */
    struct run_state state;
    float *params, *optim, *stats;
    struct own_state *own; /* [state.n_own] */
    char path[4096];
    struct progress_run of;
};
int checkpoint_write(const char *job_dir, const struct jobspec *spec, const struct run_state *state,
                     int keep, char *path, size_t path_bytes, struct err *e);
enum checkpoint_found { CHECKPOINT_FOUND, CHECKPOINT_NONE };
/* The newest valid one: enum checkpoint_found, or negative: unreadable folder. Invalid ones are
 * logged and skipped. */
int checkpoint_newest(const char *job_dir, const struct jobspec *spec, struct checkpoint *out,
                      struct err *e);
/* This file, or of a folder the newest valid one of its files. An unusable file is an error here,
 * not passed over. */
int checkpoint_open(const char *path, const struct jobspec *spec, struct checkpoint *out,
                    struct err *e);
/* Where an attempt goes on: the newest valid one of its own job (NULL: none is looked for), else
 * that of another job which the spec's `init` continues, at init_path. enum checkpoint_found, or
 * negative. */
int checkpoint_begin(const char *job_dir, const char *init_path, const struct jobspec *spec,
                     struct checkpoint *out, struct err *e);
void checkpoint_release(struct checkpoint *c);
/* Frees the workers' own states alone: programs got them when they joined. */
void checkpoint_drop_own(struct checkpoint *c);

#endif

/* Checkpoints: safetensors files, written under a temporary name, synced, then renamed. A checksum
 * in the metadata detects torn or altered files; the previous checkpoint is used instead of one.
 *
 *   JOBDIR/checkpoints/step-000000001234.safetensors
 *
 * A file holds the contents of an artifact (artifact.h), the optimizer's state and the progress.
 * The workers' own states are files in the same folder, which the checkpoint names
 * (own_files.h).
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
/* The newest valid checkpoint. Invalid ones are logged and skipped. Returns enum checkpoint_found,
 * or negative if the folder is unreadable. */
int checkpoint_newest(const char *job_dir, const struct jobspec *spec, struct checkpoint *out,
                      struct err *e);
/* Opens this file or, of a folder, the newest valid file. Here an unusable file is an error. */
int checkpoint_open(const char *path, const struct jobspec *spec, struct checkpoint *out,
                    struct err *e);
/* Finds where an attempt continues: from the newest valid checkpoint of its own job (NULL: do not
 * look), else from the checkpoint of another job at init_path, which the spec's `init` continues.
 * Returns enum checkpoint_found, or negative. */
int checkpoint_begin(const char *job_dir, const char *init_path, const struct jobspec *spec,
                     struct checkpoint *out, struct err *e);
void checkpoint_release(struct checkpoint *c);
/* Frees only the workers' own states, after programs got them on joining. */
void checkpoint_drop_own(struct checkpoint *c);

#endif

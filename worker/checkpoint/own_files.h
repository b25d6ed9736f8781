/* The files of the workers' own states (worker/exchange/own_state.h): one per worker, in the folder
 * of the checkpoint.
 *
 *   checkpoints/step-000000001234.safetensors
 *   checkpoints/step-000000001234.rank-0.5f0c….state    as the program gave it
 *
 * A name contains part of the content's digest. Writing a step again therefore never overwrites a
 * file of an older checkpoint of that step. The checkpoint lists them in `own` of its metadata, by
 * rank: {"file", "bytes", "sha256"}, or null if the worker has none. It is written last, so it
 * exists only together with all of its states.
 */
#ifndef WORKER_CHECKPOINT_OWN_FILES_H
#define WORKER_CHECKPOINT_OWN_FILES_H

#include <jansson.h>

#include "worker/exchange/own_state.h"

/* Writes n states into the folder. Returns the list of their names: a new reference, or NULL. */
json_t *own_files_write(const char *dir, int64_t step, const struct own_state *own, int n,
                        struct err *e);
/* Reads the files of `list`: *out is an array of *n, for own_files_release(). A missing or altered
 * file is an error. */
int own_files_read(const char *dir, const json_t *list, struct own_state **out, int *n,
                   struct err *e);
void own_files_release(struct own_state *own, int n);
/* Removes states of steps without a checkpoint, and those of `step` that `list` does not name. */
void own_files_sweep(const char *dir, int64_t step, const json_t *list);

#endif

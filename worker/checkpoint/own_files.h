/* The files of a checkpoint's own states (worker/exchange/own_state.h): one for each worker, beside
 * the checkpoint's own file.
 *
 *   checkpoints/step-000000001234.safetensors
 *   checkpoints/step-000000001234.rank-0.5f0c….state    as the program gave it
 *
 * A name has part of the content's digest, so that a step that is written again never overwrites a
 * file of an older checkpoint of that step. The checkpoint names them by `own` in its metadata, a
 * list by rank of {"file", "bytes", "sha256"} (null: that worker has none), and is written last: it
 * is there with all of its states, or not at all.
 */
#ifndef WORKER_CHECKPOINT_OWN_FILES_H
#define WORKER_CHECKPOINT_OWN_FILES_H

#include <jansson.h>

#include "worker/exchange/own_state.h"

/* Writes n states into the folder. Returns the list that names them: a new reference, or NULL. */
json_t *own_files_write(const char *dir, int64_t step, const struct own_state *own, int n,
                        struct err *e);
/* Reads what `list` names: *out is an array of *n, for own_files_release(). A file that is missing
 * or altered is an error. */
int own_files_read(const char *dir, const json_t *list, struct own_state **out, int *n,
                   struct err *e);
void own_files_release(struct own_state *own, int n);
/* Removes the states of steps whose checkpoint is not there, and those of `step` that `list` does
 * not name. */
void own_files_sweep(const char *dir, int64_t step, const json_t *list);

#endif

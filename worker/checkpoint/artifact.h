/* Artifacts: a network's parameters and running statistics as a safetensors file. Its metadata say
 * how to use them: the network, and how samples are normalised. A checkpoint is such a file with
 * more in it (checkpoint.h), so it can be read as an artifact too.
 *
 *   JOBDIR/artifacts/model.safetensors  best.safetensors
 */
#ifndef WORKER_CHECKPOINT_ARTIFACT_H
#define WORKER_CHECKPOINT_ARTIFACT_H

#include "worker/exchange/strategy.h"
#include "worker/checkpoint/safetensors.h"

/* name: "model" or "best". */
int artifact_write(const char *job_dir, const char *name, const struct jobspec *spec,
                   const struct run_state *state, struct err *e);
/* Reads parameters and statistics of `net` from an artifact or a checkpoint. An error names a
 * missing, extra or misshapen tensor. If the file has no running statistics, `stats` stay
 * unchanged. `how` (NULL: strictly) has a list `allow`: a tensor that it names may be wrong in any
 * of these ways; it keeps its values, and the log names it. Returns how many tensors kept their
 * values. */
int artifact_read(const char *path, const struct network *net, const struct init_spec *how,
                  float *params, float *stats, struct err *e);
/* Lists what artifact_read() would refuse, without reading numbers. Each tensor that does not fit
 * is a problem at `pointer`. */
void artifact_check(const char *path, const struct network *net, const struct init_spec *how,
                    const char *pointer, struct jsonx_problems *problems);

/* ---- what checkpoints are made of, too ------------------------------------------------------- */

#define ARTIFACT_OPTIMIZER "optimizer.state" /* the optimizer's state as one vector */
/* The network, and the origin and normalisation of its samples: all that an evaluation of the file
 * needs. New reference. */
json_t *artifact_describe(const char *kind, const struct jobspec *spec);
/* The values that artifact_describe() wrote, as in a spec; NULL: not in the file. */
struct artifact_about {
    json_t *network, *data, *normalize, *crop, *seed; /* owned */
};
void artifact_about(const struct safetensors *file, struct artifact_about *out);
void artifact_about_release(struct artifact_about *about);
/* Puts a value into metadata as JSON text; takes the reference. */
void artifact_set(json_t *meta, const char *key, json_t *value);
/* Writes parameters, statistics if the network has any, and with `optim` the optimizer's state. */
int artifact_save(const char *path, const struct network *net, const struct run_state *state,
                  bool optim, const json_t *metadata, struct err *e);
/* As artifact_read(), from an open file; its message does not name the file. */
int artifact_take(const struct safetensors *file, const struct network *net,
                  const struct init_spec *how, float *params, float *stats, struct err *e);

#endif

/* Artifacts: a network's parameters and running statistics as a safetensors file, with what is
 * needed to use them (the network, how samples are normalised) in its metadata. A checkpoint is
 * such a file with more in it (checkpoint.h), so either can be read as an artifact.
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
/* Reads parameters and statistics of `net` from an artifact (or checkpoint): a missing, extra or
 * misshapen tensor is named. A file without running statistics leaves `stats` as they are. `how`
 * (NULL: strictly): tensors that its `allow` names may be any of these; they keep their values, and
 * a line of the log names them. Returns how many were left out. */
int artifact_read(const char *path, const struct network *net, const struct init_spec *how,
                  float *params, float *stats, struct err *e);
/* Lists what artifact_read() would refuse, without reading numbers: each tensor that does not fit
 * is a problem at `pointer`. */
void artifact_check(const char *path, const struct network *net, const struct init_spec *how,
                    const char *pointer, struct jsonx_problems *problems);

/* ---- what checkpoints are made of, too ------------------------------------------------------- */

#define ARTIFACT_OPTIMIZER \
    "optimizer.state" /* the tensor with the optimizer's state as one vector */
/* The network, and the origin and normalisation of its samples: enough to evaluate the file. New
 * reference. */
json_t *artifact_describe(const char *kind, const struct jobspec *spec);
/* What artifact_describe() wrote, as a spec has it; NULL: the file does not say it. */
struct artifact_about {
    json_t *network, *data, *normalize, *crop, *seed; /* owned */
};
void artifact_about(const struct safetensors *file, struct artifact_about *out);
void artifact_about_release(struct artifact_about *about);
/* Puts a value into metadata as JSON text; takes the reference. */
void artifact_set(json_t *meta, const char *key, json_t *value);
/* Writes parameters, statistics where there are some, and with `optim` the optimizer's state. */
int artifact_save(const char *path, const struct network *net, const struct run_state *state,
                  bool optim, const json_t *metadata, struct err *e);
/* artifact_read from a file that is open; its message does not name the file. */
int artifact_take(const struct safetensors *file, const struct network *net,
                  const struct init_spec *how, float *params, float *stats, struct err *e);

#endif

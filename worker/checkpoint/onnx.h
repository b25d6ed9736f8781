/* A network with its parameters as an ONNX model, for programs that run networks and know nothing
 * of ours: `evenstep-worker --export-onnx MODEL --to FILE`, which `evenstep export` runs.
 *
 * The model has one input, `input`, float [N, channels, height, width] or [N, numbers], normalised
 * as the file's metadata say (`normalize`, `crop`; the ONNX file repeats them), and one output,
 * `output`, float [N, outputs]: what the last layer gives, before a softmax. Values in between have
 * the names of the layers, parameters those of the tensors. */
#ifndef WORKER_CHECKPOINT_ONNX_H
#define WORKER_CHECKPOINT_ONNX_H

#include "job/network/network.h"

/* metadata: an object of strings that the file repeats. Fails where ONNX has no operator for a
 * layer, and names the layer. */
int onnx_write(const char *path, const struct network *net, const float *params, const float *stats,
               const json_t *metadata, struct err *e);
/* The same from an artifact or a checkpoint that says what its network is. */
int onnx_export(const char *artifact, const char *path, struct err *e);

#endif

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

/* Writes `path` from an artifact or a checkpoint that says what its network is. Fails where ONNX
 * has no operator for a layer, and names the layer. */
int onnx_export(const char *artifact, const char *path, struct err *e);

#endif

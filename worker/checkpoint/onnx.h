/* Exports a network with its parameters as an ONNX model, for programs that run networks:
 * `evenstep-worker --export-onnx MODEL --to FILE`, which `evenstep export` runs.
 *
 * The model has one input, `input`, float [N, channels, height, width] or [N, numbers], normalised
 * as the file's metadata say (`normalize`, `crop`; the ONNX file repeats them). It has one output,
 * `output`, float [N, outputs]: the last layer's, before a softmax. Values in between have the
 * names of the layers, parameters those of the tensors. */
#ifndef WORKER_CHECKPOINT_ONNX_H
#define WORKER_CHECKPOINT_ONNX_H

#include "job/network/network.h"

/* Writes `path` from an artifact or a checkpoint that describes its network. Fails if ONNX has no
 * operator for a layer; the error names the layer. */
int onnx_export(const char *artifact, const char *path, struct err *e);

#endif

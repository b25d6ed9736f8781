/* Converts a model's file: `evenstep-worker --export-onnx MODEL`. */
#ifndef WORKER_TASKS_EXPORT_H
#define WORKER_TASKS_EXPORT_H

#include "common/err.h"

/* Writes the safetensors file `model` as ONNX to `to` (NULL: same path, with .onnx for
 * .safetensors). Prints {"file", "bytes"}; if it fails, prints {"error"} and returns negative. */
int export_onnx(const char *model, const char *to, struct err *e);

#endif

/* A model's file in another form: `evenstep-worker --export-onnx MODEL`. */
#ifndef WORKER_TASKS_EXPORT_H
#define WORKER_TASKS_EXPORT_H

#include "common/err.h"

/* Writes the safetensors file `model` as ONNX to `to` (NULL: beside it, .onnx in place of
 * .safetensors). Prints {"file", "bytes"}, or {"error"} if it fails, and then returns negative. */
int export_onnx(const char *model, const char *to, struct err *e);

#endif

/* How far two models' files are apart: `evenstep-worker --compare MODEL --with MODEL`; and how far
 * rounding alone carries the first one, with `--beside MODEL`. */
#ifndef WORKER_TASKS_COMPARE_H
#define WORKER_TASKS_COMPARE_H

#include "common/err.h"

enum { COMPARED_MODELS = 3 };

/* Prints a compared document (job/documents/results/compared.h) on standard output, or a refusal
 * and returns negative: a file cannot be read, or their tensors have other names or shapes. The
 * third of `files` may be NULL. */
int compare_models(const char *const files[COMPARED_MODELS], struct err *e);

#endif

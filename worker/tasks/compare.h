/* How far two models' files differ: `evenstep-worker --compare MODEL --with MODEL`. With `--beside
 * MODEL` also how far rounding alone moves the first one. */
#ifndef WORKER_TASKS_COMPARE_H
#define WORKER_TASKS_COMPARE_H

#include "common/err.h"

enum { COMPARED_MODELS = 3 };

/* Prints a compared document (job/documents/results/compared.h) on standard output. If a file
 * cannot be read, or names or shapes of tensors differ, prints a refusal and returns negative. The
 * third of `files` may be NULL. */
int compare_models(const char *const files[COMPARED_MODELS], struct err *e);

#endif

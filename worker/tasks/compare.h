/* How far two models' files are apart: `evenstep-worker --compare MODEL --with MODEL`. */
#ifndef WORKER_TASKS_COMPARE_H
#define WORKER_TASKS_COMPARE_H

#include "common/err.h"

/* Prints a compared document (job/documents/results/compared.h) on standard output, or a refusal
 * and returns negative: a file cannot be read, or their tensors have other names or shapes. */
int compare_models(const char *one, const char *other, struct err *e);

#endif

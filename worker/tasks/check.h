/* Checks that the coordinator delegates to the worker's program, without MPI and store: which data
 * sets exist, and whether a job fits them. */
#ifndef WORKER_TASKS_CHECK_H
#define WORKER_TASKS_CHECK_H

#include <stdbool.h>

#include "common/err.h"

/* These print JSON on standard output; negative only if that is not possible. */
/* One data set with a few samples (worker/data/preview.h), or {"error": …}. */
int check_preview(const char *roots, const char *path, bool whole, struct err *e);
int check_datasets(const char *roots, const char *cache,
                   struct err *e); /* cache: a file, or NULL (see dataset_list) */
/* common/machine/probe.h defines its form. */
int check_device(const char *name, struct err *e);
/* job/documents/results/checked.h defines its form; memory is that of the first minibatches. */
/* init: the file that the spec's `init` names; NULL: not checked */
int check_spec(const char *spec_file, const char *roots, const char *init, struct err *e);

#endif

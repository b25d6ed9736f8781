/* What the coordinator asks of a worker program without MPI and store: which data sets are there,
 * and whether a job fits them. */
#ifndef WORKER_CHECK_H
#define WORKER_CHECK_H

#include "common/err.h"

/* Print JSON on standard output; negative only if that is not possible. */
int check_datasets(const char *roots, const char *cache,
                   struct err *e); /* cache: a file, or NULL (see dataset_list) */
/* {"device": "cuda:0", "description", "memory_bytes", "threads", "precisions": [...], "why": null,
 * or why `auto` is not a GPU}, or
 * {"error": sentence}. */
int check_device(const char *name, struct err *e);
/* {"errors": [{"pointer", "message"}], "samples", "test_samples", "memory_bytes": [per worker, for
 * the first minibatches]} */
/* init: the file that the spec's `init` is; NULL: not asked */
int check_spec(const char *spec_file, const char *roots, const char *init, struct err *e);

#endif

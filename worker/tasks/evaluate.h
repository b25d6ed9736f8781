/* A model's file evaluated on a data set, without a service: `evenstep-worker --evaluate MODEL`,
 * which `evenstep evaluate` runs. */
#ifndef WORKER_TASKS_EVALUATE_H
#define WORKER_TASKS_EVALUATE_H

#include <stdbool.h>

#include "common/err.h"

struct evaluate_ask {
    const char *model; /* a safetensors file */
    /* a folder, a data set below the roots, or "glyphs"; NULL: what it was trained on */
    const char *data;
    const char *format; /* NULL: detected from the folder's files */
    const char *spec;   /* a job spec with network and data, for files without them; or NULL */
    const char *part;   /* "test" or "train" */
    const char *device;
    const char *outputs; /* an .npy file for the network's outputs [samples][outputs]; or NULL */
    const char *roots;
    int batch;
    bool pictures; /* of the samples with the greatest loss */
};
/* Prints job/documents/results/scored.h on standard output. Does so also if it fails, and then
 * returns negative. */
int evaluate_run(const struct evaluate_ask *ask, struct err *e);

#endif

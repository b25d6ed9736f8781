/* A data set as people want to see it before they train on it. */
#ifndef WORKER_DATA_PREVIEW_H
#define WORKER_DATA_PREVIEW_H

#include "worker/data/dataset.h"

/* {"path", "format", "samples", "classes": [{"class", "name", "samples"}],
 *  "examples": [{"sample", "label", "picture"}]}
 * Counts of the training part, and 16 samples spread over it, with pictures (thumbnail.h) where
 * samples are pictures. Targets that are no labels: classes are empty, labels null. Above 1,000
 * classes only the first are listed. `whole`: all samples are read, and one that no job could read
 * is an error; else only those that are shown. NULL after an error. New reference. */
json_t *preview(const char *roots, const char *path, bool whole, struct err *e);

#endif

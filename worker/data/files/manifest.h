/* The files of a data set, as a keeper lists them before it sends them. */
#ifndef WORKER_DATA_FILES_MANIFEST_H
#define WORKER_DATA_FILES_MANIFEST_H

#include "job/documents/ranks/offer.h"

/* Key, size and files of the folder that `path` leads to beneath the roots, into an empty offer:
 * plain files in it and in folders beneath it, two levels deep, by name, without those that begin
 * with a dot. `alive` is called now and then, because all bytes are read for the key. */
int manifest_make(struct offer *out, const char *roots, const char *path, void (*alive)(void *ctx),
                  void *ctx, struct err *e);
/* Opens one of the files for reading. Negative: an error, else a descriptor. */
int manifest_open(const char *roots, const char *path, const char *name, struct err *e);

#endif

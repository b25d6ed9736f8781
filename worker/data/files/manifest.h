/* The list of a data set's files, which a keeper makes before it sends them. */
#ifndef WORKER_DATA_FILES_MANIFEST_H
#define WORKER_DATA_FILES_MANIFEST_H

#include "job/documents/ranks/offer.h"

/* Puts key, size and files of the folder at `path` below the roots into an empty offer. The files
 * are plain files in it and in folders below it, two levels deep, by name, without hidden ones.
 * Calls `alive` now and then, because it reads all bytes for the key. */
int manifest_make(struct offer *out, const char *roots, const char *path, void (*alive)(void *ctx),
                  void *ctx, struct err *e);
/* Opens one of the files for reading. Returns a descriptor, or negative. */
int manifest_open(const char *roots, const char *path, const char *name, struct err *e);

#endif

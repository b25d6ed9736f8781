/* Data sets that a keeper sent to this host, kept for the next job: DIR/KEY/files/NAME. KEY is the
 * SHA-256 over names and bytes of the files. Together they take at most `limit_bytes`; the least
 * recently used ones are deleted first. The ranks of a host share the folder. */
#ifndef WORKER_DATA_FILES_RECEIVED_H
#define WORKER_DATA_FILES_RECEIVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct received {
    const char *dir; /* NULL: this host keeps none */
    int64_t limit_bytes;
};
#define RECEIVED_PATH "files" /* path below the root that received_find() returns */

/* Is there a complete data set? Puts its root into out[4096] and marks it as used now. */
bool received_find(const struct received *r, const char *key, char *out);
void received_drop(const struct received *r, const char *key);

/* A data set on its way in. Only one rank of a host writes it; writes of the others do nothing, and
 * received_end() waits for the writer. A complete data set is never written again, because another
 * rank may be reading it: a damaged one is dropped first. */
struct incoming;
/* Makes room for `bytes`. NULL with an error if that is more than the limit. */
struct incoming *received_begin(const struct received *r, const char *key, int64_t bytes,
                                struct err *e);
/* Is this rank the writer? The others may skip their writes. */
bool received_writes(const struct incoming *in);
/* Starts a file, "NAME", "FOLDER/NAME" or "FOLDER/FOLDER/NAME"; the next bytes belong to it. */
int received_file(struct incoming *in, const char *name, struct err *e);
int received_write(struct incoming *in, const void *bytes, size_t n, struct err *e);
/* Ends a complete data set, or an incomplete one (`rc` negative); frees. */
int received_end(struct incoming *in, int rc, struct err *e);

#endif

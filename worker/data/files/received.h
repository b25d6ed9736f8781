/* Data sets that a keeper sent to this host, kept for the next job: DIR/KEY/files/NAME, KEY the
 * SHA-256 over names and bytes of the files. Together they take at most `limit_bytes`; the least
 * recently used ones are deleted first. Several ranks of a host share the folder. */
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
#define RECEIVED_PATH "files" /* the data set's path beneath the root that received_find returns */

/* Is there a complete one? Its root into out[4096], and it counts as used now. */
bool received_find(const struct received *r, const char *key, char *out);
void received_drop(const struct received *r, const char *key);

/* A data set that arrives. Only one rank of a host writes it; the others' writes do nothing, and
 * received_end() waits for the writer. Nobody writes one that is there, since another rank may be
 * reading it: a damaged one is dropped first. */
struct incoming;
/* Makes room for `bytes`. NULL with an error: more than the limit. */
struct incoming *received_begin(const struct received *r, const char *key, int64_t bytes,
                                struct err *e);
/* Is it this rank that writes? The others may skip their writes. */
bool received_writes(const struct incoming *in);
/* The bytes that follow belong to this file: "NAME", "FOLDER/NAME" or "FOLDER/FOLDER/NAME". */
int received_file(struct incoming *in, const char *name, struct err *e);
int received_write(struct incoming *in, const void *bytes, size_t n, struct err *e);
/* Complete, or not (`rc` negative); frees. */
int received_end(struct incoming *in, int rc, struct err *e);

#endif

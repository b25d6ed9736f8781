/* What is in a file of a data set, packed (gzip) or not, as memory. A plain file is mapped. A
 * packed one is unpacked once for all ranks and jobs of a host, into its cache (received.h) by the
 * digest of the packed file, and mapped from there. Where a host has no cache, or its cache has no
 * room, each rank unpacks into memory of its own. */
#ifndef WORKER_DATA_FILES_UNPACKED_H
#define WORKER_DATA_FILES_UNPACKED_H

#include <zlib.h>

#include "worker/data/files/mapped.h"
#include "worker/data/files/received.h"

enum { DEFLATE_RATIO = 1032 }; /* n packed bytes hold at most so many times n */

/* Where unpacked files are kept. Set once, before any thread opens a data set; `home` is borrowed.
 */
void unpacked_keep_in(const struct received *home);

bool unpacked_keeps(void); /* has this host a cache? */

/* What is written into the cache once for a host, by a key of its own. */
struct unpacking {
    const char *key;  /* SHA-256 in hex, over what decides the bytes */
    const char *name; /* for messages */
    int64_t want;     /* bytes that must be there, or -1: as many as there are */
    int64_t most;     /* room to make for it */
    /* Writes it all by received_write(). */
    int (*fill)(void *ctx, struct incoming *in, struct err *e);
    void *ctx;
};
/* Maps it, after one rank has filled it and the others have waited for that. NULL with an error, or
 * without one where this host has no cache. */
struct mapped *unpacked_once(const struct unpacking *u, struct err *e);

struct unpack {
    gzFile f;         /* open, at any position */
    const char *path; /* of the file */
    const char *name; /* for messages */
    int64_t want;     /* bytes that must be in it, or -1: as many as there are */
    int64_t most;     /* more are refused */
    int64_t got;      /* out: bytes that were unpacked before an error */
};
/* NULL after an error. */
struct mapped *unpacked_open(struct unpack *u, struct err *e);

/* Why a packed or plain file could not be read beyond byte `at` of `of`. */
int unpacked_torn(gzFile f, const char *name, int64_t at, int64_t of, struct err *e);

#endif

/* The contents of a data set's file, compressed (gzip) or not, as memory. A plain file is mapped. A
 * compressed one is decompressed once for all ranks and jobs of a host, into its cache (received.h)
 * by the digest of the compressed file, and mapped from there. If the host has no cache, or no room
 * in it, each rank decompresses into its own memory. */
#ifndef WORKER_DATA_FILES_UNPACKED_H
#define WORKER_DATA_FILES_UNPACKED_H

#include <zlib.h>

#include "worker/data/files/mapped.h"
#include "worker/data/files/received.h"

enum { DEFLATE_RATIO = 1032 }; /* n compressed bytes hold at most n times this */

/* Sets where decompressed files are kept. Call it once, before any thread opens a data set; `home`
 * is borrowed. */
void unpacked_keep_in(const struct received *home);

bool unpacked_keeps(void); /* has this host a cache? */

/* Something that is written into the cache once per host, under a key of its own. */
struct unpacking {
    const char *key;  /* SHA-256 in hex, over all that determines the bytes */
    const char *name; /* for messages */
    int64_t want;     /* bytes that it must have, or -1: any number */
    int64_t most;     /* room to make for it */
    /* Writes it all by received_write(). */
    int (*fill)(void *ctx, struct incoming *in, struct err *e);
    void *ctx;
};
/* Maps it after one rank has filled it; the other ranks wait for that. NULL with an error, or
 * without one if this host has no cache. */
struct mapped *unpacked_once(const struct unpacking *u, struct err *e);

struct unpack {
    gzFile f;         /* open, at any position */
    const char *path; /* of the file */
    const char *name; /* for messages */
    int64_t want;     /* bytes that it must have, or -1: any number */
    int64_t most;     /* more are refused */
    int64_t got;      /* out: bytes decompressed before an error */
};
/* NULL after an error. */
struct mapped *unpacked_open(struct unpack *u, struct err *e);

/* Says why a compressed or plain file could not be read beyond byte `at` of `of`. */
int unpacked_torn(gzFile f, const char *name, int64_t at, int64_t of, struct err *e);

#endif

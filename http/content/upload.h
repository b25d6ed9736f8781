/* A body that is too large for memory: routes that take one (ROUTE_UPLOADS) get it as a file
 * without a name beneath the data directory, so that whatever ends the request leaves nothing
 * behind. */
#ifndef HTTP_CONTENT_UPLOAD_H
#define HTTP_CONTENT_UPLOAD_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

enum {
    UPLOAD_PROGRAM_BYTES = 64 << 20, /* a larger one: 413 */
    UPLOAD_DATA_BYTES = 1 << 30,
    UPLOADS_MOST = 8,     /* under way at a time; another one: 503 */
    UPLOAD_SECONDS = 600, /* for all of it */
};

struct upload {
    FILE *file; /* NULL: none is under way; owned */
    int64_t bytes, most;
    atomic_int *count; /* borrowed: of those under way */
};

/* `dir`: the data directory; `most`: bytes of the body. Close it in any case. */
int upload_open(struct upload *u, const char *dir, int64_t most, atomic_int *count, struct err *e);
int upload_add(struct upload *u, const void *bytes, size_t n, struct err *e);
/* All of it is there: the file, from its beginning. Borrowed. */
FILE *upload_file(struct upload *u, struct err *e);
void upload_close(struct upload *u);

#endif

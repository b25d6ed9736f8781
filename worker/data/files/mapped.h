/* A file of a data set as memory, without being read: its pages come from the page cache when they
 * are touched. The ranks of a host share them, and a file may be larger than memory.
 *
 * Another process may shorten or change a file while it is mapped. Touching a page beyond the new
 * end gives zeros instead of ending this process (SIGBUS), and mapped_check() says which file it
 * was. A file that is replaced by renaming does no harm: the mapping keeps the old one.
 */
#ifndef WORKER_DATA_FILES_MAPPED_H
#define WORKER_DATA_FILES_MAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"

struct mapped {
    const uint8_t *at; /* [bytes] */
    size_t bytes;
    char name[64]; /* for messages */
    int fd;        /* -1: memory of our own, not a file */
    int direct;    /* the same for reads past the page cache; -1: not asked for yet, -2: none */
    struct timespec changed;
    atomic_bool torn; /* a page was not there */
    int users;
};

/* Maps the plain file `path`, which messages call `name`. NULL after an error. */
struct mapped *mapped_open(const char *path, const char *name, struct err *e);
/* The same for memory from malloc, which it takes over, also after an error. */
struct mapped *mapped_memory(void *bytes, size_t n, const char *name, struct err *e);
/* One more user of the same mapping; the last one's mapped_close() ends it. Not for several threads
 * at once. */
struct mapped *mapped_share(struct mapped *m);
void mapped_close(struct mapped *m); /* NULL is allowed */
/* Fails if the file has been shortened or changed since it was mapped. */
int mapped_check(const struct mapped *m, struct err *e);
/* Pages will be touched in no order: the kernel reads none but those. Those that were touched
 * before leave the mapping, but not the page cache, so that any process may drop them. */
void mapped_shuffled(const struct mapped *m);
/* Begins to read these bytes, without waiting. */
void mapped_ahead(const struct mapped *m, const uint8_t *at, size_t bytes);
struct direct;
/* The same past the page cache (direct.h), by this address. false: that cannot be. */
bool mapped_direct(struct mapped *m, const uint8_t *at, size_t bytes, struct direct *d);
/* Copies these bytes past the mapping, after which their pages leave the page cache, unless a
 * process has them mapped. What is not there any more reads as zeros, and tears the file. */
void mapped_once(struct mapped *m, const uint8_t *at, size_t bytes, uint8_t *to);

#endif

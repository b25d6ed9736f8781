/* A file of a data set as memory: its pages come from the page cache when they are touched. The
 * ranks of a host share them, and a file may be larger than memory.
 *
 * Another process may shorten or change a file while it is mapped. Touching a page beyond the new
 * end gives zeros instead of ending this process (SIGBUS), and mapped_check() names the file.
 * Replacing a file by renaming does no harm: the mapping keeps the old one.
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
    int direct;    /* its descriptor past the page cache; -1: not opened yet, -2: none */
    struct timespec changed;
    atomic_bool torn; /* a page was missing */
    int users;
};

/* Maps the plain file `path`, which messages call `name`. NULL after an error. */
struct mapped *mapped_open(const char *path, const char *name, struct err *e);
/* The same for memory from malloc, which it takes over, also after an error. */
struct mapped *mapped_memory(void *bytes, size_t n, const char *name, struct err *e);
/* Adds a user of the same mapping; the last user's mapped_close() ends it. Not thread-safe. */
struct mapped *mapped_share(struct mapped *m);
void mapped_close(struct mapped *m); /* NULL is allowed */
/* Fails if the file has been shortened or changed since it was mapped. */
int mapped_check(const struct mapped *m, struct err *e);
/* Announces that pages will be touched in random order, so that the kernel reads no others. Pages
 * that were touched before leave the mapping but not the page cache, so that any process may drop
 * them. */
void mapped_shuffled(const struct mapped *m);
/* Starts to read these bytes, without waiting. */
void mapped_ahead(const struct mapped *m, const uint8_t *at, size_t bytes);
struct direct;
/* The same past the page cache (direct.h), with the address as key. False if that is not
 * possible. */
bool mapped_direct(struct mapped *m, const uint8_t *at, size_t bytes, struct direct *d);
/* Copies these bytes past the mapping. Afterwards their pages leave the page cache, unless a
 * process has them mapped. Missing bytes read as zeros and mark the file as torn. */
void mapped_once(struct mapped *m, const uint8_t *at, size_t bytes, uint8_t *to);

#endif

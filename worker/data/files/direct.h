/* Reads past the page cache, many under way at a time: Linux's own asynchronous reads (io_submit)
 * of a file that is opened with O_DIRECT, into a ring of buffers. A read through the page cache
 * costs the kernel three times as much, which allots pages, enters them into lists and takes them
 * out again (docs/decisions/0052).
 *
 * Reads are taken in the order in which they were asked for. One that is passed over is dropped, so
 * a guess that was wrong costs a read, never a wrong byte. For one thread at a time. */
#ifndef WORKER_DATA_FILES_DIRECT_H
#define WORKER_DATA_FILES_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct direct;

/* Room for `most` reads of up to `bytes` each. NULL: there are no such reads here, or no memory. */
struct direct *direct_new(int most, size_t bytes);
void direct_free(struct direct *d); /* NULL is allowed; waits for what is under way */
/* `fd` once more, for reads past the page cache; negative: its file system has none. */
int direct_open(int fd);
/* Notes a read of `bytes` from `from` on, which will be taken by this key; false: no room. */
bool direct_ask(struct direct *d, int fd, off_t from, size_t bytes, const void *key);
/* Begins what was noted. */
void direct_begin(struct direct *d);
/* Drops all that was asked for. */
void direct_forget(struct direct *d);
/* What was read for this key, waiting for it: valid until the next call. NULL: it was not asked
 * for, or could not be read whole. */
const uint8_t *direct_take(struct direct *d, const void *key);

#endif

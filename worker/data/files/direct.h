/* Reads past the page cache, with many under way at a time: Linux's asynchronous reads (io_submit)
 * of a file opened with O_DIRECT, into a ring of buffers. A read through the page cache costs the
 * kernel three times as much, because it allocates pages, enters them into lists and removes them
 * again (docs/decisions/0052).
 *
 * Reads are taken in the order in which they were asked for. A read that the caller skips is
 * dropped, so a wrong prediction costs a read, never a wrong byte. One thread at a time may use
 * it. */
#ifndef WORKER_DATA_FILES_DIRECT_H
#define WORKER_DATA_FILES_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct direct;

/* Room for `most` reads of up to `bytes` each. NULL: the system has no such reads, or memory ran
 * out. */
struct direct *direct_new(int most, size_t bytes);
void direct_free(struct direct *d); /* NULL is allowed; waits for reads under way */
/* Opens the file of `fd` again, for reads past the page cache; negative: its file system has
 * none. */
int direct_open(int fd);
/* Notes a read of `bytes` starting at `from`, to be taken by this key; false: no room. */
bool direct_ask(struct direct *d, int fd, off_t from, size_t bytes, const void *key);
/* Starts the noted reads. */
void direct_begin(struct direct *d);
/* Drops all reads. */
void direct_forget(struct direct *d);
/* Waits for the read with this key and returns its bytes, valid until the next call. NULL: it was
 * not asked for, or could not be read completely. */
const uint8_t *direct_take(struct direct *d, const void *key);

#endif

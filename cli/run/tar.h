/* Writes tar archives (POSIX ustar, uncompressed) of regular files, so that the same files always
 * give the same bytes: owner, group and time are 0, the mode is 0644 or 0755.
 *
 *     tar_add … tar_add, tar_end      the caller adds files in the order of their paths
 *
 * A path that ustar's two fields cannot hold is in a pax header before the file's own.
 */
#ifndef CLI_RUN_TAR_H
#define CLI_RUN_TAR_H

#include "common/text/buf.h"
#include "common/archive/tar_header.h"

enum { TAR_END_BYTES = 2 * TAR_BLOCK };

/* Appends one file of n bytes. path: relative, without "./". */
void tar_add(struct buf *out, const char *path, bool executable, const void *bytes, size_t n);
/* The header of a file of n bytes. The caller appends the content itself, and then tar_fill(n)
 * zeros. */
void tar_head(struct buf *out, const char *path, bool executable, size_t n);
size_t tar_fill(size_t n);
/* Two empty blocks. out->failed then says whether everything fitted. */
void tar_end(struct buf *out);
/* What tar_add appends for a file of n bytes. */
size_t tar_bytes(const char *path, size_t n);

#endif

/* The header of an entry in a tar archive (POSIX ustar; GNU's differs from `magic` on), which
 * common/archive/tar.c reads and cli/run/tar.c writes.
 */
#ifndef COMMON_ARCHIVE_TAR_HEADER_H
#define COMMON_ARCHIVE_TAR_HEADER_H

#include <stddef.h>
#include <stdint.h>

enum { TAR_BLOCK = 512 };

/* Numbers are octal digits in text. */
struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
        magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is one block");

/* The sum of all bytes, with those of the checksum field taken as spaces. */
static inline int64_t tar_checksum(const struct tar_header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    const size_t first = offsetof(struct tar_header, checksum), last = first + sizeof h->checksum;
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof *h; i++) {
        sum += i >= first && i < last ? ' ' : p[i];
    }
    return sum;
}

#endif

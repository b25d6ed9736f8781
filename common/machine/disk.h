/* How much a disk has left. */
#ifndef COMMON_MACHINE_DISK_H
#define COMMON_MACHINE_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that we may still write on the disk of this file or folder; negative: that cannot be told.
 */
int64_t disk_free(const char *path);
/* Is there less than a megabyte left, so that a write that failed did so for that? */
bool disk_is_full(const char *path);

#endif

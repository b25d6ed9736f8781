/* How much space a disk has left. */
#ifndef COMMON_MACHINE_DISK_H
#define COMMON_MACHINE_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process may still write on the disk of this file or folder; negative: unknown. */
int64_t disk_free(const char *path);
/* Is less than a megabyte left? A failed write then failed because the disk is full. */
bool disk_is_full(const char *path);

#endif

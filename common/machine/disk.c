/* See disk.h. */
#include "common/machine/disk.h"

#include <sys/statvfs.h>

enum { LITTLE = 1 << 20 };

int64_t disk_free(const char *path)
{
    struct statvfs fs;
    return statvfs(path, &fs) == 0 ? (int64_t)(fs.f_bavail * fs.f_frsize) : -1;
}

bool disk_is_full(const char *path)
{
    int64_t left = disk_free(path);
    return left >= 0 && left < LITTLE;
}

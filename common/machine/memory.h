/* How much memory is available to this process, and to the pages of files that it reads. A control
 * group (version 1 or 2), or a group above it, may allow less than the machine has; it also counts
 * the pages of files. */
#ifndef COMMON_MACHINE_MEMORY_H
#define COMMON_MACHINE_MEMORY_H

#include <stdint.h>

struct memory {
    int64_t limit; /* bytes that this process may use: of the machine, or of its control groups */
    int64_t room;  /* bytes of `limit` that are free; pages of files count as free */
};
struct memory memory_read(void);
/* As memory_read(), with other folders in place of /proc and /sys/fs/cgroup. */
struct memory memory_read_in(const char *proc, const char *groups);

#endif

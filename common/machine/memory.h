/* How much memory there is for this process, and for pages of files that it reads. The machine's
 * figures are those of everybody; a control group (version 1 or 2), and each group above it, may
 * allow less, and counts the pages of files too. */
#ifndef COMMON_MACHINE_MEMORY_H
#define COMMON_MACHINE_MEMORY_H

#include <stdint.h>

struct memory {
    int64_t limit; /* bytes that this process may use: the machine's, or those of its groups */
    int64_t room;  /* bytes of these that no process uses; pages of files count as unused */
};
struct memory memory_read(void);
/* The same, with other folders in the place of /proc and /sys/fs/cgroup. */
struct memory memory_read_in(const char *proc, const char *groups);

#endif

/* The control groups that limit this process: its own and each one above it.
 *
 *   version 1   /proc/self/cgroup  "4:memory:/a/b"   GROUPS/memory/a/b, GROUPS/memory/a, …
 *   version 2                      "0::/a/b"         GROUPS/a/b, GROUPS/a, GROUPS
 *
 * In a container, the process's own group may be mounted as the root. Folders below the root may
 * then be missing. */
#ifndef COMMON_MACHINE_GROUPS_H
#define COMMON_MACHINE_GROUPS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct group {
    char path[PATH_MAX];
    size_t root; /* length of the root group's path */
    bool second; /* version 2 */
};
/* The process's own group of `controller` ("memory", "cpu"). `proc` and `groups` replace /proc and
 * /sys/fs/cgroup. False: there is none. */
bool group_own(struct group *g, const char *proc, const char *groups, const char *controller);
bool group_up(struct group *g); /* moves to the group above; false: it was the root */
/* The number in the group's file; NaN if there is no number, or the file says "max". */
double group_figure(const struct group *g, const char *file);
/* CPUs that this process may use, by the strictest group, which goes into *least (may be NULL); 0:
 * no group limits them. */
double group_cpu_quota(const char *proc, const char *groups, struct group *least);

#endif

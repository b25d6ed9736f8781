/* The control groups that this process is in: its own, and each above it; all of them limit it.
 *
 *   version 1   /proc/self/cgroup  "4:memory:/a/b"   GROUPS/memory/a/b, GROUPS/memory/a, …
 *   version 2                      "0::/a/b"         GROUPS/a/b, GROUPS/a, GROUPS
 *
 * In a container the group that a process is in may be mounted as the root, so that folders below
 * it may not be there. */
#ifndef COMMON_MACHINE_GROUPS_H
#define COMMON_MACHINE_GROUPS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct group {
    char path[PATH_MAX];
    size_t root; /* length of the path of the root group */
    bool second; /* version 2 */
};
/* The own group of `controller` ("memory", "cpu"). `proc` and `groups` stand in the place of /proc
 * and /sys/fs/cgroup. false: there is none. */
bool group_own(struct group *g, const char *proc, const char *groups, const char *controller);
bool group_up(struct group *g); /* to the one above; false: it was the root */
/* The number in the group's file; NaN: there is none, or it is "max". */
double group_figure(const struct group *g, const char *file);
/* CPUs that this process may use, by the group that allows the least, which is *least (may be
 * NULL); 0: no group limits it. */
double group_cpu_quota(const char *proc, const char *groups, struct group *least);

#endif

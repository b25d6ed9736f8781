/* See memory.h. Groups whose folders do not exist are skipped. */
#include "common/machine/memory.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine/groups.h"
#include "common/process/proc.h"

/* Files of a group. Of its memory.stat, the pages of files that the kernel can drop count. */
struct version {
    const char *limit, *used, *files[2];
};
static const struct version one = {"memory.limit_in_bytes",
                                   "memory.usage_in_bytes",
                                   {"total_inactive_file ", "total_active_file "}};
static const struct version two = {
    "memory.max", "memory.current", {"inactive_file ", "active_file "}};

static double pages_of_files(const struct group *g, const struct version *v)
{
    char path[PATH_MAX + 32];
    double found[2];
    snprintf(path, sizeof(path), "%s/memory.stat", g->path);
    proc_numbers(path, v->files, 2, found);
    return (isnan(found[0]) ? 0 : found[0]) + (isnan(found[1]) ? 0 : found[1]);
}

struct memory memory_read_in(const char *proc, const char *groups)
{
    char path[PATH_MAX];
    struct group g;
    static const char *const words[] = {"MemTotal:", "MemAvailable:"};
    double found[2];
    snprintf(path, sizeof(path), "%s/meminfo", proc);
    proc_numbers(path, words, 2, found);
    double machine = 1024 * found[0], limit = machine, room = 1024 * found[1];
    for (bool is = group_own(&g, proc, groups, "memory"); is; is = group_up(&g)) {
        const struct version *v = g.second ? &two : &one;
        double most = group_figure(&g, v->limit);
        if (isnan(machine) || most < machine) { /* a larger group limits nothing */
            limit = fmin(limit, most);
            room = fmin(room, most - group_figure(&g, v->used) + pages_of_files(&g, v));
        }
    }
    return (struct memory){(int64_t)fmax(0, limit), (int64_t)fmax(0, room)};
}

struct memory memory_read(void)
{
    return memory_read_in("/proc", "/sys/fs/cgroup");
}

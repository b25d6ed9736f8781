/* See memory.h.
 *
 *   version 1   /proc/self/cgroup  "4:memory:/a/b"   GROUPS/memory/a/b, GROUPS/memory/a, …
 *   version 2                      "0::/a/b"         GROUPS/a/b, GROUPS/a, GROUPS
 *
 * In a container the group that a process is in may be mounted as the root, so folders that are not
 * there are passed over. */
#include "common/machine/memory.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/proc.h"

/* Files of a group. Of its memory.stat count the pages of files that can be dropped. */
struct version {
    const char *limit, *used, *files[2];
};
static const struct version one = {"memory.limit_in_bytes",
                                   "memory.usage_in_bytes",
                                   {"total_inactive_file ", "total_active_file "}};
static const struct version two = {
    "memory.max", "memory.current", {"inactive_file ", "active_file "}};

/* This process's group below `groups`, as a path into out[PATH_MAX]; its root's length is *root. */
static const struct version *own_group(const char *proc, const char *groups, char *out,
                                       size_t *root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/self/cgroup", proc);
    char *text = proc_read_file(path, 1 << 16, NULL, NULL), *at = NULL;
    const struct version *v = NULL;
    for (char *line = text ? strtok_r(text, "\n", &at) : NULL; line;
         line = strtok_r(NULL, "\n", &at)) {
        bool second = strncmp(line, "0::", 3) == 0;
        char *memory = strstr(line, ":memory:");
        if (memory || (second && !v)) {
            *root = (size_t)snprintf(out, PATH_MAX, "%s%s", groups, memory ? "/memory" : "");
            snprintf(out + *root, PATH_MAX - *root, "%s",
                     strchr(line, '/') ? strchr(line, '/') : "");
            v = memory ? &one : &two;
        }
    }
    free(text);
    return v;
}

/* The number behind `word` in the group's file; NaN: there is none, or it is "max". */
static double figure(const char *group, const char *file, const char *word)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", group, file);
    return proc_number(path, word);
}

struct memory memory_read_in(const char *proc, const char *groups)
{
    char group[PATH_MAX], path[PATH_MAX];
    size_t root = 0;
    snprintf(path, sizeof(path), "%s/meminfo", proc);
    double limit = 1024 * proc_number(path, "MemTotal:"),
           room = 1024 * proc_number(path, "MemAvailable:");
    const struct version *v = own_group(proc, groups, group, &root);
    for (char *end = group; v && end;) {
        double most = figure(group, v->limit, ""), used = figure(group, v->used, "");
        for (int i = 0; i < 2; i++) {
            double files = figure(group, "memory.stat", v->files[i]);
            used -= isnan(files) ? 0 : files;
        }
        limit = fmin(limit, most);
        room = fmin(room, most - used);
        end = strlen(group) > root ? strrchr(group + root, '/') : NULL;
        if (end) {
            *end = '\0';
        }
    }
    return (struct memory){(int64_t)fmax(0, limit), (int64_t)fmax(0, room)};
}

struct memory memory_read(void)
{
    return memory_read_in("/proc", "/sys/fs/cgroup");
}

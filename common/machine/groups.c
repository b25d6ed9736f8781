/* See groups.h. */
#include "common/machine/groups.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/proc.h"

/* "cpu" is in "4:cpu,cpuacct:/a": the list of controllers stands between two colons. */
static bool line_has(const char *line, const char *controller)
{
    const char *at = strchr(line, ':'), *end = at ? strchr(at + 1, ':') : NULL;
    size_t n = strlen(controller);
    while (end && at < end) {
        const char *next = at + 1 + strcspn(at + 1, ",:");
        if ((size_t)(next - at - 1) == n && strncmp(at + 1, controller, n) == 0) {
            return true;
        }
        at = next;
    }
    return false;
}

bool group_own(struct group *g, const char *proc, const char *groups, const char *controller)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/self/cgroup", proc);
    char *text = proc_read_file(path, 1 << 16, NULL, NULL), *at = NULL;
    bool found = false;
    for (char *line = text ? strtok_r(text, "\n", &at) : NULL; line;
         line = strtok_r(NULL, "\n", &at)) {
        bool second = strncmp(line, "0::", 3) == 0, first = !second && line_has(line, controller);
        if (first || (second && !found)) {
            const char *below = strchr(line, '/');
            g->root = (size_t)snprintf(g->path, sizeof(g->path), "%s%s%s", groups, first ? "/" : "",
                                       first ? controller : "");
            snprintf(g->path + g->root, sizeof(g->path) - g->root, "%s", below ? below : "");
            g->second = second;
            found = true;
        }
    }
    free(text);
    return found;
}

bool group_up(struct group *g)
{
    char *end = strlen(g->path) > g->root ? strrchr(g->path + g->root, '/') : NULL;
    if (end) {
        *end = '\0';
    }
    return end != NULL;
}

double group_figure(const struct group *g, const char *file)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", g->path, file);
    return proc_number(path, "");
}

/* "20000 100000": microseconds of each period; NaN: no quota. */
static double quota_of(const struct group *g)
{
    char path[PATH_MAX + 32];
    if (!g->second) {
        double quota = group_figure(g, "cpu.cfs_quota_us");
        return quota > 0 ? quota / group_figure(g, "cpu.cfs_period_us") : NAN;
    }
    snprintf(path, sizeof(path), "%s/cpu.max", g->path);
    char *text = proc_read_file(path, 4096, NULL, NULL), *end = text;
    double quota = text ? strtod(text, &end) : 0, period = text ? strtod(end, NULL) : 0;
    free(text);
    return quota > 0 && period > 0 ? quota / period : NAN;
}

double group_cpu_quota(const char *proc, const char *groups, struct group *least)
{
    struct group g;
    double quota = 0;
    for (bool is = group_own(&g, proc, groups, "cpu"); is; is = group_up(&g)) {
        double this = quota_of(&g);
        if (isfinite(this) && this > 0 && (quota == 0 || this < quota)) {
            quota = this;
            if (least) {
                *least = g;
            }
        }
    }
    return quota;
}

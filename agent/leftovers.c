/* What killed agents left behind; see leftovers.h. */
#include "agent/leftovers.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/process/proc.h"

enum { OWNER_BYTES = 200 };
static const char owner_file[] = ".agent";

void leftovers_own(const char *dir)
{
    char path[PATH_MAX], place[PROC_SPACE], text[2 * OWNER_BYTES];
    proc_space(place);
    snprintf(path, sizeof path, "%s/%s", dir, owner_file);
    int n = snprintf(text, sizeof text, "%s %d %" PRIu64 "\n", place, (int)getpid(),
                     proc_start_ticks(getpid()));
    proc_write_file(path, text, (size_t)n, 0600, NULL);
}

static bool has_ended(const char *dir)
{
    char path[PATH_MAX], place[PROC_SPACE], of[OWNER_BYTES];
    int pid;
    uint64_t ticks;
    snprintf(path, sizeof path, "%s/%s", dir, owner_file);
    char *text = proc_read_file(path, OWNER_BYTES, NULL, NULL);
    proc_space(place);
    bool known = text && sscanf(text, "%199s %d %" SCNu64, of, &pid, &ticks) == 3;
    bool ended = known && strcmp(of, place) == 0 && !proc_alive(pid, ticks);
    free(text);
    return ended;
}

int leftovers_sweep(const char *parent, const char *prefix)
{
    int n = 0;
    char dir[PATH_MAX];
    DIR *all = opendir(parent);
    const struct dirent *one;
    while (all && (one = readdir(all))) {
        snprintf(dir, sizeof dir, "%s/%s", parent, one->d_name);
        if (strncmp(one->d_name, prefix, strlen(prefix)) == 0 && has_ended(dir)) {
            log_info("agent", "removing the remains of a killed agent", "path=%s", dir);
            n += proc_remove_tree(dir, NULL) >= 0;
        }
    }
    if (all) {
        closedir(all);
    }
    return n;
}

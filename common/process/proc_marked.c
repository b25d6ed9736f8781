/* Finds processes by their environment (proc.h). Variables that no other process has identify what
 * an attempt left behind; a process's name alone never does.
 */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/proc.h"

/* Is NAME=VALUE one of the NUL-separated strings? */
static bool has_pair(const char *block, size_t n, const char *pair)
{
    for (const char *p = block; p < block + n; p += strlen(p) + 1) {
        if (strcmp(p, pair) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_marked(pid_t pid, const char *const *pairs)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    char *block = proc_read_file(path, 1 << 20, &n, NULL);
    bool all = block != NULL;
    for (int i = 0; all && pairs[i]; i++) {
        all = has_pair(block, n, pairs[i]);
    }
    free(block);
    return all && pid != getpid();
}

/* Calls fn for each process that has all of these variables; returns how many there are. */
static int for_marked(const char *const *pairs, void (*fn)(void *ctx, pid_t pid, uint64_t ticks),
                      void *ctx)
{
    DIR *proc = opendir("/proc");
    int found = 0;
    for (struct dirent *d; proc && (d = readdir(proc));) {
        if (!isdigit((unsigned char)d->d_name[0])) {
            continue;
        }
        pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
        uint64_t ticks = proc_start_ticks(pid);
        if (ticks && is_marked(pid, pairs) && proc_alive(pid, ticks)) {
            fn(ctx, pid, ticks);
            found++;
        }
    }
    if (proc) {
        closedir(proc);
    }
    return found;
}

static void send_signal(void *ctx, pid_t pid, uint64_t ticks)
{
    (void)ticks;
    kill(pid, *(const int *)ctx);
}

int proc_signal_marked(const char *const *pairs, int sig)
{
    return for_marked(pairs, send_signal, &sig);
}

struct oldest {
    pid_t pid;
    uint64_t ticks;
};

static void note_leader(void *ctx, pid_t pid, uint64_t ticks)
{
    struct oldest *o = ctx;
    bool older = !o->pid || ticks < o->ticks || (ticks == o->ticks && pid < o->pid);
    if (older && getsid(pid) == pid) {
        *o = (struct oldest){pid, ticks};
    }
}

pid_t proc_find_marked(const char *const *pairs, uint64_t *start_ticks)
{
    struct oldest o = {0};
    for_marked(pairs, note_leader, &o);
    *start_ticks = o.ticks;
    return o.pid;
}

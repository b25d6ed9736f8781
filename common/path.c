/* See path.h. The program's folder comes from /proc/self/exe: argv[0] is what somebody typed, which
 * may not be where the file is. */
#include "common/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process/proc.h"

void path_program_dir(char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(self, '/');
    snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - self) : 0, self);
}

void path_data_roots(const char *fallback, char *out, size_t bytes)
{
    const char *given = getenv("EVENSTEP_DATA");
    char part[PATH_MAX], real[PATH_MAX];
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = given && *given ? given : fallback; *at;) {
        size_t n = strcspn(at, ":");
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        int wrote = n ? snprintf(out + used, bytes - used, "%s%s", used ? ":" : "",
                                 realpath(part, real) ? real : part)
                      : 0;
        used += wrote > 0 && (size_t)wrote < bytes - used ? (size_t)wrote : 0;
        at += n + (at[n] == ':');
    }
    out[used] = '\0';
}

char *path_read_line(const char *path, size_t max, struct err *e)
{
    char *text = proc_read_file(path, max, NULL, e);
    if (text) {
        text[strcspn(text, "\r\n")] = '\0';
    }
    return text;
}

bool path_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_size == b->st_size && a->st_ino == b->st_ino;
}

int path_watch_init(struct path_watch *w, const char *path)
{
    snprintf(w->path, sizeof w->path, "%s", path);
    w->checked = clock_now();
    return stat(path, &w->last);
}

bool path_watch_changed(struct path_watch *w, bool at_once)
{
    struct stat now_there;
    double now = clock_now();
    if ((!at_once && now < w->checked + 1) || stat(w->path, &now_there) < 0) {
        return false;
    }
    w->checked = now;
    if (path_is_same(&now_there, &w->last)) {
        return false;
    }
    w->last = now_there;
    return true;
}

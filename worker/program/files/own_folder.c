/* See own_folder.h. */
#include "worker/program/files/own_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/process/proc.h"

enum { LEFT_SECONDS = 60 };

/* It is ours, nobody has locked it, and it is older than the moment in which its owner made and
 * locked it. */
static bool is_left(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    bool left = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
                time(NULL) - st.st_mtim.tv_sec > LEFT_SECONDS && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return left;
}

static void sweep(const char *base, const char *prefix)
{
    char path[PATH_MAX + 300];
    DIR *d = opendir(base);
    for (const struct dirent *f; d && (f = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", base, f->d_name);
        if (strncmp(f->d_name, prefix, strlen(prefix)) == 0 && is_left(path)) {
            proc_remove_tree(path, NULL);
        }
    }
    if (d) {
        closedir(d);
    }
}

int own_folder_make(struct own_folder *f, const char *base, const char *prefix, struct err *e)
{
    *f = OWN_FOLDER_NONE;
    sweep(base, prefix);
    snprintf(f->path, sizeof(f->path), "%.4000s/%.60sXXXXXX", base, prefix);
    if (!mkdtemp(f->path)) {
        f->path[0] = '\0';
        return err_errno(e, ERR_IO, "cannot make a folder in '%.200s'", base);
    }
    f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->lock < 0 || flock(f->lock, LOCK_EX) != 0
               ? err_errno(e, ERR_IO, "cannot lock the folder '%.200s'", f->path)
               : 0;
}

void own_folder_remove(struct own_folder *f)
{
    if (f->path[0]) {
        proc_remove_tree(f->path, NULL);
    }
    if (f->lock >= 0) {
        close(f->lock);
    }
    *f = OWN_FOLDER_NONE;
}

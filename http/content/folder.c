/* A job's folder of files: what is in it, and one of them opened; see files.h.
 *
 * A user's program may have written the folder, so nothing in it is trusted. Each part of a path is
 * opened by itself and never through a link, unsafe names are ignored, and a listing has limits of
 * files, folders and levels.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/content/files.h"
#include "http/routes.h"

enum {
    PATH_BYTES = 1024,
    NAME_BYTES = ROUTE_ARG_BYTES, /* of a path beneath the folder, which must fit into its
                                     address */
    FILES_MOST = 1000,
    FOLDERS_MOST = 1000,
    DEPTH_MOST = 16
};

int files_open(const char *folder, const char *path, struct stat *st)
{
    char safe[NAME_BYTES + 1], part[NAME_BYTES];
    if (snprintf(safe, sizeof(safe), "/%s", path) >= (int)sizeof(safe) || !files_safe_path(safe)) {
        return -1;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *at = path; fd >= 0 && at;) {
        size_t n = strcspn(at, "/");
        memcpy(part, at, n);
        part[n] = '\0';
        int flags = at[n] ? O_DIRECTORY : O_NONBLOCK;
        int below = openat(fd, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags);
        close(fd);
        fd = below;
        at = at[n] ? at + n + 1 : NULL;
    }
    if (fd >= 0 && (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- a listing ------------------------------------------------------------------------------- */

struct listing {
    char *names[FILES_MOST]; /* paths beneath the folder; its own */
    size_t files, folders;
};

static void list_folder(struct listing *l, int fd, const char *above, int depth);

/* Lists one entry. above: "" at the top, else a path that ends in a slash. */
static void list_entry(struct listing *l, int folder, const char *above, const char *name,
                       int depth)
{
    char path[NAME_BYTES];
    struct stat st;
    if (!files_safe_name(name) || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    bool inner = S_ISDIR(st.st_mode);
    if (snprintf(path, sizeof(path), "%s%s%s", above, name, inner ? "/" : "") >=
        (int)sizeof(path)) {
        return;
    }
    if (inner && depth < DEPTH_MOST && l->folders < FOLDERS_MOST) {
        l->folders++;
        list_folder(l, openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), path,
                    depth + 1);
    } else if (S_ISREG(st.st_mode) && (l->names[l->files] = strdup(path))) {
        l->files++;
    }
}

/* Lists a folder. Takes fd; -1 is an empty folder. */
static void list_folder(struct listing *l, int fd, const char *above, int depth)
{
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *entry; d && l->files < FILES_MOST && (entry = readdir(d));) {
        list_entry(l, fd, above, entry->d_name, depth);
    }
    if (d) {
        closedir(d);
    } else if (fd >= 0) {
        close(fd);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *files_list(struct digests *d, const char *folder, struct err *e)
{
    struct listing *l = calloc(1, sizeof(*l));
    json_t *list = json_array();
    if (!l || !list) {
        free(l);
        json_decref(list);
        err_set(e, ERR_MEMORY, "cannot list files: memory ran out");
        return NULL;
    }
    list_folder(l, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0);
    qsort(l->names, l->files, sizeof(*l->names), by_name);
    for (size_t i = 0; i < l->files; i++) {
        char full[PATH_BYTES], hash[65];
        struct stat st;
        struct err vanished;
        if (snprintf(full, sizeof(full), "%s/%s", folder, l->names[i]) < (int)sizeof(full) &&
            stat(full, &st) == 0 && digests_get(d, full, hash, &vanished) == 0) {
            json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", l->names[i], "bytes",
                                                  (json_int_t)st.st_size, "sha256", hash));
        }
        free(l->names[i]);
    }
    free(l);
    return list;
}

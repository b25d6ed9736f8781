/* Folders and files of data sets below EVENSTEP_DATA.
 *
 * A path comes from a job's spec, so it must not lead outside the roots, not even through symbolic
 * links. Every path, of a folder or a file, is therefore resolved first and compared afterwards.
 * The target of an operator's link directly below a root counts as below it
 * (docs/decisions/0045-links-beneath-a-data-root.md).
 */
#include "worker/data/dataset.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PATH_BYTES = 4096 };

bool dataset_next_root(const char **roots, char *out)
{
    while (**roots) {
        size_t n = strcspn(*roots, ":");
        char raw[PATH_BYTES];
        bool fits = n > 0 && n < sizeof(raw);
        if (fits) {
            memcpy(raw, *roots, n);
            raw[n] = '\0';
        }
        *roots += n + ((*roots)[n] == ':');
        if (fits && realpath(raw, out)) {
            return true;
        }
    }
    return false;
}

static bool is_beneath(const char *root, const char *path)
{
    size_t n = strlen(root);
    return strncmp(root, path, n) == 0 && (path[n] == '\0' || path[n] == '/' || n == 1);
}

/* Is it a link made by somebody who manages the root: its owner, root, or our own user? */
static bool is_operators_link(int root, const char *name)
{
    struct stat folder, link;
    return fstat(root, &folder) == 0 && fstatat(root, name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISLNK(link.st_mode) &&
           (link.st_uid == folder.st_uid || link.st_uid == 0 || link.st_uid == geteuid());
}

static bool beneath_link(const char *root, const char *path)
{
    char raw[PATH_BYTES + 256], target[PATH_BYTES];
    bool found = false;
    DIR *d = opendir(root);
    for (const struct dirent *f; d && !found && (f = readdir(d));) {
        bool may_be = f->d_type == DT_LNK || f->d_type == DT_UNKNOWN;
        snprintf(raw, sizeof(raw), "%s/%s", root, f->d_name);
        found = may_be && is_operators_link(dirfd(d), f->d_name) && realpath(raw, target) &&
                is_beneath(target, path);
    }
    if (d) {
        closedir(d);
    }
    return found;
}

static bool beneath_any(const char *roots, const char *path)
{
    char root[PATH_BYTES];
    for (const char *rest = roots; dataset_next_root(&rest, root);) {
        if (is_beneath(root, path)) {
            return true;
        }
    }
    while (dataset_next_root(&roots, root)) {
        if (beneath_link(root, path)) {
            return true;
        }
    }
    return false;
}

int dataset_resolve(const char *roots, const char *dir, const char *name, char *out, struct err *e)
{
    char raw[PATH_BYTES];
    int n = snprintf(raw, sizeof(raw), "%s/%s", dir, name);
    if (n < 0 || n >= (int)sizeof(raw) || !realpath(raw, out)) {
        return RESOLVED_NOTHING;
    }
    if (!beneath_any(roots, out)) {
        err_set(e, ERR_FORBIDDEN, "cannot use '%.200s': it leads outside the data folders", name);
        return err_hint(e,
                        "a symbolic link may, if it stands directly beneath a data folder and its "
                        "owner is the folder's");
    }
    return RESOLVED_FOUND;
}

int dataset_find(const char *roots, const char *path, char *out, struct err *e)
{
    char root[PATH_BYTES];
    const char *rest = roots;
    while (dataset_next_root(&rest, root)) {
        int rc = dataset_resolve(roots, root, path, out, e);
        if (rc != RESOLVED_NOTHING) {
            return rc < 0 ? rc : 0;
        }
    }
    err_set(e, ERR_NOT_FOUND, "cannot find '%.200s' beneath the data folders", path);
    if (*roots) {
        err_hint(e, "the data folders are %.200s; EVENSTEP_DATA names them", roots);
    } else {
        err_hint(e,
                 "set EVENSTEP_DATA to the folder that holds it, or use the format glyphs, "
                 "which needs no file");
    }
    return -ERR_NOT_FOUND;
}

int dataset_file(const char *roots, const char *dir, const char *name, char *out, struct err *e)
{
    char packed[256];
    int rc = dataset_resolve(roots, dir, name, out, e);
    if (rc == RESOLVED_NOTHING) {
        snprintf(packed, sizeof(packed), "%s.gz", name);
        rc = dataset_resolve(roots, dir, packed, out, e);
    }
    if (rc == RESOLVED_NOTHING) {
        return err_set(e, ERR_NOT_FOUND, "there is no file '%s'", name);
    }
    struct stat st;
    if (rc == RESOLVED_FOUND && stat(out, &st) == 0 &&
        !S_ISREG(st.st_mode)) { /* opening a pipe would wait for a writer */
        return err_set(e, ERR_DATA, "'%s' is not a regular file", name);
    }
    return rc < 0 ? rc : 0;
}

gzFile dataset_open_file(const char *path, const char *name, struct err *e)
{
    gzFile f = gzopen(path, "rb");
    if (!f) {
        err_errno(e, ERR_IO, "cannot open '%s'", name);
        return NULL;
    }
    gzbuffer(f, 1 << 18);
    return f;
}

/* The files of a program's folder: see files.h. */
#include "cli/run/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/git.h"

enum { FILES_MOST = 10000, FOLDERS_MOST = 20000, DEPTH_MOST = 64 };

struct search {
    struct files *found;
    const struct ignore *ignored;
    size_t room;
    int folders; /* that were read */
    struct err *err;
};

/* ---- one path -------------------------------------------------------------------------------- */

static void join(char out[2 * PATH_MAX], const struct search *s, const char *path)
{
    snprintf(out, 2 * PATH_MAX, "%s/%s", s->found->folder, path);
}

/* The folder at the top with the most of the files that were found, which follow each other. */
static int most_files(const struct files *f, char folder[100])
{
    int run = 0, most = 0;
    snprintf(folder, 100, ".");
    for (size_t i = 0; i < f->n; i++) {
        const char *path = f->list[i].path, *last = i > 0 ? f->list[i - 1].path : "";
        size_t top = strcspn(path, "/");
        bool same = path[top] && strncmp(path, last, top + 1) == 0;
        run = same ? run + 1 : path[top] != '\0';
        if (run > most) {
            most = run;
            snprintf(folder, 100, "%.*s", (int)top, path);
        }
    }
    return most;
}

static int too_many(struct search *s, int most, const char *what)
{
    char folder[100];
    int there = most_files(s->found, folder);
    err_set(s->err, ERR_TOO_LARGE,
            "the folder '%.200s' has more than %d %s; of the files that were found %d are in '%s'",
            s->found->folder, most, what, there, folder);
    return err_hint(s->err,
                    "data stay on the nodes, beneath $EVENSTEP_DATA; a line of "
                    ".evenstepignore leaves a folder out");
}

static int add_file(struct search *s, const char *path, const struct stat *st)
{
    struct files *f = s->found;
    if (f->n == FILES_MOST) {
        return too_many(s, FILES_MOST, "files");
    }
    if (f->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        struct file *grown = realloc(f->list, sizeof *grown * s->room);
        BUG_ON(!grown);
        f->list = grown;
    }
    char *copy = strdup(path);
    BUG_ON(!copy);
    f->list[f->n++] = (struct file){copy, (size_t)st->st_size, (st->st_mode & S_IXUSR) != 0};
    return 0;
}

/* Where a link leads: to a file within the folder, or it is refused. */
static int add_link(struct search *s, const char *path)
{
    char full[2 * PATH_MAX], real[PATH_MAX];
    struct stat st;
    size_t n = strlen(s->found->folder);
    join(full, s, path);
    const char *why = NULL;
    if (!realpath(full, real)) {
        why = "it leads nowhere";
    } else if (strncmp(real, s->found->folder, n) != 0 || real[n] != '/') {
        why = "it leaves the program's folder";
    } else if (stat(real, &st) < 0 || !S_ISREG(st.st_mode)) {
        why = "it leads to something else than a file";
    }
    if (why) {
        err_set(s->err, ERR_DATA, "the link '%.200s' cannot be packed: %s", path, why);
        return err_hint(s->err, "a line of .evenstepignore leaves it out");
    }
    return add_file(s, path, &st);
}

static int walk(struct search *s, const char *folder, int depth);

static int add_path(struct search *s, const char *path, int depth)
{
    char full[2 * PATH_MAX];
    struct stat st;
    join(full, s, path);
    if (lstat(full, &st) < 0) {
        return errno == ENOENT ? 0 /* git tracks it, and it was removed */
                               : err_errno(s->err, ERR_IO, "cannot pack '%.300s'", path);
    }
    if (ignore_matches(s->ignored, path, S_ISDIR(st.st_mode))) {
        return 0;
    }
    return S_ISLNK(st.st_mode)   ? add_link(s, path)
           : S_ISDIR(st.st_mode) ? walk(s, path, depth + 1)
           : S_ISREG(st.st_mode) ? add_file(s, path, &st)
                                 : 0;
}

/* ---- a folder -------------------------------------------------------------------------------- */

static bool is_environment(const struct search *s, const char *folder)
{
    char full[2 * PATH_MAX], marker[2 * PATH_MAX + 16];
    join(full, s, folder);
    snprintf(marker, sizeof marker, "%s/pyvenv.cfg", full);
    return access(marker, F_OK) == 0;
}

/* folder: relative, "" for the top. */
static int walk(struct search *s, const char *folder, int depth)
{
    char full[2 * PATH_MAX], path[PATH_MAX];
    int rc = 0;
    if (*folder && is_environment(s, folder)) {
        return 0;
    }
    if (s->folders++ == FOLDERS_MOST) {
        return too_many(s, FOLDERS_MOST, "folders");
    }
    join(full, s, folder);
    DIR *d = depth <= DEPTH_MOST ? opendir(full) : NULL;
    if (!d) {
        return depth <= DEPTH_MOST
                   ? err_errno(s->err, ERR_IO, "cannot read the folder '%.300s'", full)
                   : err_set(s->err, ERR_DATA, "the folder '%.300s' is nested too deep", full);
    }
    for (struct dirent *one; rc == 0 && (one = readdir(d));) {
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0) {
            continue;
        }
        if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", one->d_name) >=
            (int)sizeof path) {
            rc = err_set(s->err, ERR_DATA, "the path '%.200s…' is too long", path);
        } else {
            rc = add_path(s, path, depth);
        }
    }
    closedir(d);
    return rc;
}

/* ---- git ------------------------------------------------------------------------------------- */

/* Is the path in a virtual environment? walk() finds that out by itself. */
static bool in_environment(const struct search *s, const char *path)
{
    char folder[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (is_environment(s, folder)) {
            return true;
        }
    }
    return false;
}

static int add_listed(struct search *s, const char *within, char *paths, size_t n, int depth);

/* A folder that git lists as one entry: another repository, such as a submodule, which is asked
 * itself; one that was not fetched is an empty folder. */
static int add_repository(struct search *s, const char *path, int depth)
{
    char full[2 * PATH_MAX], mark[2 * PATH_MAX + 8], *listed = NULL;
    size_t n = 0;
    if (ignore_matches(s->ignored, path, true)) {
        return 0;
    }
    join(full, s, path);
    snprintf(mark, sizeof mark, "%s/.git", full);
    bool fetched = depth <= DEPTH_MOST && access(mark, F_OK) == 0;
    int rc = fetched ? git_list(full, &listed, &n, s->err) : GIT_NOT_THERE;
    rc = rc == GIT_NOT_THERE ? walk(s, path, depth)
         : rc == GIT_LISTED  ? add_listed(s, path, listed, n, depth + 1)
                             : rc;
    free(listed);
    return rc;
}

static bool is_folder(const struct search *s, const char *path)
{
    char full[2 * PATH_MAX];
    struct stat st;
    join(full, s, path);
    return lstat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

/* paths: relative to `within`, each with a NUL behind it. */
static int add_listed(struct search *s, const char *within, char *paths, size_t n, int depth)
{
    char path[PATH_MAX];
    int rc = 0;
    for (const char *at = paths; rc == 0 && at < paths + n; at += strlen(at) + 1) {
        int length = snprintf(path, sizeof path, "%s%s%s", within, *within ? "/" : "", at);
        if (length >= (int)sizeof path) {
            return err_set(s->err, ERR_DATA, "the path '%.200s…' is too long", path);
        }
        if (path[length - 1] == '/') {
            path[length - 1] = '\0';
        }
        rc = in_environment(s, path) ? 0
             : is_folder(s, path)    ? add_repository(s, path, depth)
                                     : add_path(s, path, 0);
    }
    return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

/* A file in conflict is listed once for each side. */
static void drop_doubles(struct files *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (kept > 0 && strcmp(f->list[kept - 1].path, f->list[i].path) == 0) {
            free(f->list[i].path);
        } else {
            f->list[kept++] = f->list[i];
        }
    }
    f->n = kept;
}

int files_find(struct files *f, const char *folder, const struct ignore *ignored, struct err *e)
{
    struct search s = {.found = f, .ignored = ignored, .err = e};
    size_t n = 0;
    memset(f, 0, sizeof *f);
    if (!realpath(folder, f->folder)) {
        return err_errno(e, ERR_NOT_FOUND, "cannot find the folder '%.300s'", folder);
    }
    char *listed = NULL;
    int rc = git_list(f->folder, &listed, &n, e);
    f->by_git = rc == GIT_LISTED;
    rc = rc == GIT_NOT_THERE ? walk(&s, "", 0)
         : rc == GIT_LISTED  ? add_listed(&s, "", listed, n, 0)
                             : rc;
    free(listed);
    if (f->n > 0) {
        qsort(f->list, f->n, sizeof *f->list, by_path);
        drop_doubles(f);
    }
    return rc;
}

int files_one(struct files *f, const char *folder, const char *path, struct err *e)
{
    struct ignore nothing = {0};
    struct search s = {.found = f, .ignored = &nothing, .err = e};
    memset(f, 0, sizeof *f);
    return realpath(folder, f->folder)
               ? add_path(&s, path, 0)
               : err_errno(e, ERR_NOT_FOUND, "cannot find the folder '%.300s'", folder);
}

void files_release(struct files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->list[i].path);
    }
    free(f->list);
    f->list = NULL;
    f->n = 0;
}

const struct file *files_get(const struct files *f, const char *path)
{
    struct file wanted = {.path = (char *)path};
    return f->n > 0 ? bsearch(&wanted, f->list, f->n, sizeof *f->list, by_path) : NULL;
}

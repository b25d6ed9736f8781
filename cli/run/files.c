/* The files of a program's folder: see files.h. */
#include "cli/run/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/proc.h"

enum { LIST_BYTES = 64 << 20, FILES_MOST = 10000, DEPTH_MOST = 64 };

struct search {
    struct files *found;
    const struct ignore *ignored;
    size_t room;
    struct err *err;
};

/* ---- one path -------------------------------------------------------------------------------- */

static void join(char out[2 * PATH_MAX], const struct search *s, const char *path)
{
    snprintf(out, 2 * PATH_MAX, "%s/%s", s->found->folder, path);
}

static int add_file(struct search *s, const char *path, const struct stat *st)
{
    struct files *f = s->found;
    if (f->n == FILES_MOST) {
        return err_set(s->err, ERR_TOO_LARGE, "the folder '%.300s' has more than %d files",
                       f->folder, FILES_MOST);
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

/* What `git ls-files` prints, paths with a NUL behind each; NULL where git is not installed, or the
 * folder is in no work tree of its. */
static char *ask_git(const char *folder, size_t *n)
{
    const char *const argv[] = {
        "git", "-C", folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", NULL};
    char dir[] = "/tmp/evenstep-pack-XXXXXX", out[64], *text = NULL;
    int code = 0;
    if (!mkdtemp(dir)) {
        return NULL;
    }
    snprintf(out, sizeof out, "%s/files", dir);
    struct proc_spec spec = {.argv = argv, .stdout_path = out, .die_with_parent = true};
    pid_t pid = proc_start(&spec, NULL);
    while (pid > 0 && !proc_poll(pid, &code)) {
        clock_sleep(0.002);
    }
    if (pid > 0 && code == 0) {
        text = proc_read_file(out, LIST_BYTES, n, NULL);
    }
    proc_remove_tree(dir, NULL);
    return text;
}

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

static int add_listed(struct search *s, char *paths, size_t n)
{
    int rc = 0;
    for (char *path = paths; rc == 0 && path < paths + n; path += strlen(path) + 1) {
        size_t length = strlen(path);
        char *slash = length > 0 && path[length - 1] == '/' ? path + length - 1 : NULL;
        if (length >= PATH_MAX) {
            rc = err_set(s->err, ERR_DATA, "the path '%.200s…' is too long", path);
            continue;
        }
        if (slash) { /* another repository, of which git lists nothing */
            *slash = '\0';
        }
        rc = in_environment(s, path) ? 0 : add_path(s, path, 0);
        if (slash) {
            *slash = '/';
        }
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
    char *listed = ask_git(f->folder, &n);
    f->by_git = listed != NULL;
    int rc = listed ? add_listed(&s, listed, n) : walk(&s, "", 0);
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

/* Is it one of PATH? */
static bool has_commands(const char *folder)
{
    char one[PATH_MAX], real[PATH_MAX];
    bool found = false;
    for (const char *at = getenv("PATH"); at && !found;) {
        size_t n = strcspn(at, ":");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        found = n > 0 && realpath(one, real) && strcmp(real, folder) == 0;
        at = at[n] ? at + n + 1 : NULL;
    }
    return found;
}

const char *files_no_project(const char *folder)
{
    char home[PATH_MAX];
    const char *named = getenv("HOME");
    struct stat st;
    if (strcmp(folder, "/") == 0) {
        return "it is the root of all folders";
    }
    if (named && realpath(named, home) && strcmp(home, folder) == 0) {
        return "it is the home folder";
    }
    if (stat(folder, &st) == 0 && (st.st_mode & S_ISVTX)) {
        return "everybody may write there";
    }
    return has_commands(folder) ? "it is one of PATH" : NULL;
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

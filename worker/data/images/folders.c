/* See folders.h. A symbolic link to a file is followed only if its target lies below the data
 * roots, which the caller checks when it opens the file. A link to a folder is no class. */
#include "worker/data/images/folders.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PEEKED_CLASSES = 8, PEEKED_NAMES = 32 };

const char *folders_name(const struct folders *f, int64_t i)
{
    return f->names + f->pictures[i].name;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_picture(const char *name)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof(ends) / sizeof(*ends); i++) {
        if (strcasecmp(dot, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int join(char out[FOLDERS_PATH], const char *a, const char *b, struct err *e)
{
    int n = snprintf(out, FOLDERS_PATH, "%s%s%s", a, *a && *b ? "/" : "", b);
    return n >= 0 && n < FOLDERS_PATH
               ? 0
               : err_set(e, ERR_TOO_LARGE, "the path '%.200s…' is too long", a);
}

/* ---- the names of a folder ------------------------------------------------------------------- */

/* False for files that a file manager keeps in every folder that it shows. */
static bool counts(const char *name)
{
    return name[0] != '.' && strcasecmp(name, "Thumbs.db") != 0 &&
           strcasecmp(name, "desktop.ini") != 0;
}

static int seen_names(const struct dirent *f)
{
    return counts(f->d_name);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static int add_class(struct folders *f, const char *name, struct err *e)
{
    int n = f->n_classes;
    if (n == FOLDERS_CLASSES) {
        return err_set(e, ERR_DATA, "'%.200s' has more than %d folders", f->dir, FOLDERS_CLASSES);
    }
    if ((n & (n - 1)) == 0) { /* at 0, 1, 2, 4, … : room for as many again */
        char **more = realloc(f->classes, (n ? 2 * (size_t)n : 1) * sizeof(*more));
        f->classes = more ? more : f->classes;
        if (!more) {
            return err_set(e, ERR_MEMORY, "cannot list '%.200s': memory ran out", f->dir);
        }
    }
    f->classes[n] = strdup(name);
    f->n_classes += f->classes[n] != NULL;
    return f->classes[n] ? 0
                         : err_set(e, ERR_MEMORY, "cannot list '%.200s': memory ran out", f->dir);
}

static int add_picture(struct folders *f, const char *folder, const char *name, int label,
                       struct err *e)
{
    size_t bytes = strlen(folder) + 1 + strlen(name) + 1;
    if (!is_picture(name)) {
        err_set(e, ERR_DATA, "'%s/%s' is neither .jpg, .jpeg nor .png", folder, name);
        return err_hint(e, "move it away: a class's folder holds pictures only");
    }
    if (f->n == FOLDERS_PICTURES) {
        return err_set(e, ERR_DATA, "'%.200s' has more than %d pictures", f->dir, FOLDERS_PICTURES);
    }
    if (f->n == f->room) {
        int64_t room = f->room ? 2 * f->room : 1024;
        struct picture *more = realloc(f->pictures, (size_t)room * sizeof(*more));
        f->pictures = more ? more : f->pictures;
        f->room = more ? room : f->room;
    }
    if (f->names_bytes + bytes > f->names_room) {
        size_t room = 2 * f->names_room + bytes + 65536;
        char *more = realloc(f->names, room);
        f->names = more ? more : f->names;
        f->names_room = more ? room : f->names_room;
    }
    if (f->n == f->room || f->names_bytes + bytes > f->names_room) {
        return err_set(e, ERR_MEMORY, "cannot list '%.200s': memory ran out", f->dir);
    }
    snprintf(f->names + f->names_bytes, bytes, "%s/%s", folder, name);
    f->pictures[f->n++] = (struct picture){f->names_bytes, label, 0};
    f->names_bytes += bytes;
    return 0;
}

/* The pictures of one class; `folder` is its path below dir. */
static int read_class(struct folders *f, const char *folder, int label, struct err *e)
{
    char path[FOLDERS_PATH], file[FOLDERS_PATH];
    struct dirent **names = NULL;
    int rc = join(path, f->dir, folder, e);
    int n = rc == 0 ? scandir(path, &names, seen_names, by_bytes) : 0;
    if (n < 0) {
        return err_errno(e, ERR_IO, "cannot read the folder '%s'", folder);
    }
    for (int i = 0; rc == 0 && i < n; i++) {
        bool below = names[i]->d_type == DT_DIR ||
                     (names[i]->d_type == DT_UNKNOWN &&
                      (rc = join(file, path, names[i]->d_name, e)) == 0 && is_folder(file));
        if (below) {
            rc = err_set(e, ERR_DATA, "'%s/%s' is a folder within a class", folder,
                         names[i]->d_name);
        } else if (rc == 0) {
            rc = add_picture(f, folder, names[i]->d_name, label, e);
        }
    }
    free_names(names, n);
    return rc;
}

static int class_of(const struct folders *f, const char *name)
{
    int least = 0, end = f->n_classes;
    while (least < end) {
        int middle = (least + end) / 2, order = strcmp(name, f->classes[middle]);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            end = middle;
        } else {
            least = middle + 1;
        }
    }
    return -1;
}

/* Reads the classes of a part ("train", "test" or "", the folder itself). Those of the first part
 * are the data set's; other parts may not have more. */
static int read_part(struct folders *f, const char *part, bool first, struct err *e)
{
    char path[FOLDERS_PATH], folder[FOLDERS_PATH], full[FOLDERS_PATH];
    struct dirent **names = NULL;
    int rc = join(path, f->dir, part, e);
    int n = rc == 0 ? scandir(path, &names, seen_names, by_bytes) : 0;
    if (n < 0) {
        return err_errno(e, ERR_IO, "cannot read the folder '%s'", part);
    }
    for (int i = 0; rc == 0 && i < n; i++) {
        const char *name = names[i]->d_name;
        if ((rc = join(folder, part, name, e)) < 0 || (rc = join(full, f->dir, folder, e)) < 0 ||
            !is_folder(full)) {
            continue;
        }
        rc = first ? add_class(f, name, e) : 0;
        int label = first ? f->n_classes - 1 : class_of(f, name);
        if (rc == 0 && label < 0) {
            rc = err_set(e, ERR_DATA, "the class '%s' is in test/, but not in train/", name);
        }
        if (rc == 0) {
            rc = read_class(f, folder, label, e);
        }
    }
    free_names(names, n);
    return rc;
}

int folders_read(struct folders *f, const char *dir, struct err *e)
{
    char path[FOLDERS_PATH];
    memset(f, 0, sizeof(*f));
    int rc = join(f->dir, dir, "", e);
    if (rc == 0) {
        rc = join(path, dir, "train", e);
    }
    bool parts = rc == 0 && is_folder(path);
    if (rc == 0) {
        rc = read_part(f, parts ? "train" : "", true, e);
    }
    f->n_train = f->n;
    if (rc == 0 && parts && (rc = join(path, dir, "test", e)) == 0 && is_folder(path)) {
        rc = read_part(f, "test", false, e);
    }
    if (rc < 0) {
        folders_release(f);
    }
    return rc;
}

void folders_release(struct folders *f)
{
    for (int i = 0; i < f->n_classes; i++) {
        free(f->classes[i]);
    }
    free(f->classes);
    free(f->names);
    free(f->pictures);
    memset(f, 0, sizeof(*f));
}

/* ---- recognising ----------------------------------------------------------------------------- */

/* Is one of the first names in this folder a picture? */
static bool holds_pictures(const char *path)
{
    DIR *d = opendir(path);
    bool found = false;
    const struct dirent *f;
    for (int i = 0; d && !found && i < PEEKED_NAMES && (f = readdir(d)); i++) {
        found = f->d_name[0] != '.' && f->d_type != DT_DIR && is_picture(f->d_name);
    }
    if (d) {
        closedir(d);
    }
    return found;
}

static bool holds_classes(const char *path)
{
    char below[FOLDERS_PATH];
    DIR *d = opendir(path);
    bool found = false;
    const struct dirent *f;
    for (int tried = 0; d && !found && tried < PEEKED_CLASSES && (f = readdir(d));) {
        if (f->d_name[0] != '.' && join(below, path, f->d_name, NULL) == 0 && is_folder(below)) {
            found = holds_pictures(below);
            tried++;
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

bool folders_match(const char *dir)
{
    char train[FOLDERS_PATH];
    return join(train, dir, "train", NULL) == 0 &&
           (is_folder(train) ? holds_classes(train) : holds_classes(dir));
}

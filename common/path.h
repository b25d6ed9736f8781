/* Paths and small files: this program's own folder, the folders of data sets, files with one line
 * such as a password, and checks whether a file has changed. */
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/err.h"

/* The folder of the running program, without a trailing slash; "" if it cannot be found. */
void path_program_dir(char out[PATH_MAX]);
/* The folders of data sets, separated by colons: those of EVENSTEP_DATA, else `fallback`. An
 * existing folder is made absolute. A missing one stays as it was given, so that a message can name
 * it. Folders that do not fit into `out` are left out. */
void path_data_roots(const char *fallback, char *out, size_t bytes);
/* The first line of a file of at most `max` bytes, without its line end; the caller frees. */
char *path_read_line(const char *path, size_t max, struct err *e);
/* Do two results of stat() for one path show the same, unchanged file? Two writes within one tick
 * of the kernel's clock have the same time of change, so size and inode are compared too. */
bool path_is_same(const struct stat *a, const struct stat *b);
/* A file that is read again after it has changed. */
struct path_watch {
    char path[512];
    struct stat last; /* of the file when it was read */
    double checked;   /* clock_now() */
};
/* 0, or -1 with errno: the file is not there. */
int path_watch_init(struct path_watch *w, const char *path);
/* Has the file changed, or been replaced, since it was read? Asks the file system at most once a
 * second, unless `at_once`. A deleted file counts as unchanged. */
bool path_watch_changed(struct path_watch *w, bool at_once);

#endif

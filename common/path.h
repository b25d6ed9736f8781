/* Where files stand: this program's own folder, the folders of data sets, files that hold one line,
 * such as a password, and whether a file is still the one that was read. */
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/err.h"

/* The folder of the program that runs, without a slash at its end; "" where that cannot be found.
 */
void path_program_dir(char out[PATH_MAX]);
/* The folders of data sets, separated by colons: those of EVENSTEP_DATA, else `fallback`. Each is
 * absolute where it is there, else as it was given, so that a message can name it; what does not
 * fit into `out` is left out. */
void path_data_roots(const char *fallback, char *out, size_t bytes);
/* The first line of a file of at most `max` bytes, without its end; the caller frees. */
char *path_read_line(const char *path, size_t max, struct err *e);
/* Do two results of stat() for one path show the same file, unchanged? Two writes within one tick
 * of the kernel's clock leave the same time of change, so size and inode are compared too. */
bool path_is_same(const struct stat *a, const struct stat *b);
/* A file that is read again when it has changed. */
struct path_watch {
    char path[512];
    struct stat last; /* of the file as it was read */
    double checked;   /* clock_now() */
};
/* 0, or -1 with errno: the file is not there. */
int path_watch_init(struct path_watch *w, const char *path);
/* Has the file changed, or been replaced, since it was read? Asks the file system once a second at
 * most, unless `at_once`. A file that is gone has not changed. */
bool path_watch_changed(struct path_watch *w, bool at_once);

#endif

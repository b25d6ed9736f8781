/* Where files stand: this program's own folder, the folders of data sets, and files that hold one
 * line, such as a password. */
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <limits.h>
#include <stddef.h>

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

#endif

/* The files of a program's folder that go with it to the nodes:
 *
 *     in a git work tree   what git tracks, and what is new there and not ignored (a file that was
 *                          written a minute ago is part of the program); the same
 *                          in submodules and other repositories in the folder
 *     elsewhere            everything in the folder
 *
 * in both cases without what .evenstepignore leaves out (ignore.h) and without virtual environments
 * (folders with a pyvenv.cfg). A link to a file in the folder goes as that file; a link that leaves
 * the folder, or leads to another folder, is refused. Empty folders, sockets and devices do not go.
 */
#ifndef CLI_RUN_FILES_H
#define CLI_RUN_FILES_H

#include <limits.h>
#include <stddef.h>

#include "cli/run/ignore.h"

struct file {
    char *path;   /* relative to the folder; owned */
    size_t bytes; /* as it was found */
    bool executable;
};

struct files {
    char folder[PATH_MAX]; /* absolute, links resolved */
    struct file *list;     /* in the order of their paths' bytes; owned */
    size_t n;
    bool by_git;
};

/* f needs files_release either way. */
int files_find(struct files *f, const char *folder, const struct ignore *ignored, struct err *e);
/* The file alone. */
int files_one(struct files *f, const char *folder, const char *path, struct err *e);
void files_release(struct files *f);
const struct file *files_get(const struct files *f, const char *path); /* NULL: not among them */

#endif

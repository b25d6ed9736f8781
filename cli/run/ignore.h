/* Which paths of a program's folder are left out: what `.evenstepignore` in it says, and what no
 * program needs (.git, compiled Python, virtual environments, a service's data).
 *
 * One pattern a line, as in .gitignore but for `!` and `**`: `*.ckpt` holds for files and folders
 * of that name everywhere, `/data` and `runs/old` from the top, `cache/` for folders alone; `*`,
 * `?` and `[a-z]` stay within one name. What is in a folder that is left out is left out with it.
 * Lines that begin with # are comments.
 */
#ifndef CLI_RUN_IGNORE_H
#define CLI_RUN_IGNORE_H

#include <stdbool.h>

#include "common/err.h"

struct ignore {
    char **patterns; /* owned */
    int n;
};

/* Reads folder/.evenstepignore, if there is one. g needs ignore_release either way. */
int ignore_init(struct ignore *g, const char *folder, struct err *e);
void ignore_release(struct ignore *g);
void ignore_add(struct ignore *g, const char *pattern);
/* Is this path (relative to the folder) left out, for itself or with a folder that it is in? */
bool ignore_matches(const struct ignore *g, const char *path, bool is_folder);

#endif

/* What git knows of a folder. */
#ifndef CLI_RUN_GIT_H
#define CLI_RUN_GIT_H

#include <stddef.h>

#include "common/err.h"

enum git_answer {
    GIT_NOT_THERE, /* git is not installed, or the folder is in no work tree of its */
    GIT_LISTED     /* *paths: relative to the folder, with a NUL behind each; malloc'd, *n bytes */
};
/* The files that it tracks, and those that are new and not ignored. Another repository within is
 * one path, which ends in "/" if it is not tracked. Returns enum git_answer; negative: git gave no
 * answer within a minute. */
int git_list(const char *folder, char **paths, size_t *n, struct err *e);

#endif

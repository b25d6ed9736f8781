/* A folder that one rank uses and removes. A rank that was killed cannot remove its own: the folder
 * is locked as long as it is in use, and the next rank that makes one of the kind removes those
 * that nobody holds. */
#ifndef WORKER_PROGRAM_FILES_OWN_FOLDER_H
#define WORKER_PROGRAM_FILES_OWN_FOLDER_H

#include <limits.h>

#include "common/err.h"

struct own_folder {
    char path[PATH_MAX]; /* "": none */
    int lock;            /* -1: none */
};

#define OWN_FOLDER_NONE ((struct own_folder){.lock = -1})

/* A new, empty folder BASE/PREFIXXXXXXX that only its user may enter; removes those that are left.
 * The prefix says the kind. ERR_IO; needs own_folder_remove either way. */
int own_folder_make(struct own_folder *f, const char *base, const char *prefix, struct err *e);
/* With all that is in it. */
void own_folder_remove(struct own_folder *f);

#endif

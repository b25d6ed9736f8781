/* Runs child processes as another user of this machine. A service that runs as root runs its ranks,
 * and with them users' own programs, as a user that cannot read the service's files. */
#ifndef COMMON_PROCESS_RUN_AS_H
#define COMMON_PROCESS_RUN_AS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

#define RUN_AS_USER "evenstep-rank" /* used if it exists and no user is named */
#define RUN_AS_OPTION                                                                              \
    {                                                                                              \
        "run-as", "USER", OPT_STRING, NULL, 0, 0,                                                  \
            "user of this machine as whom ranks and users' programs run, where this runs as root " \
            "(default: " RUN_AS_USER " if there is one, else the same user)"                       \
    }

/* How a rank learns of it: the user's name, and a folder that the user owns. */
#define RUN_AS_VARIABLE "EVENSTEP_RUN_AS"
#define RUN_AS_CACHE "EVENSTEP_RUN_AS_CACHE"

enum { RUN_AS_GROUPS = 64, RUN_AS_NAME = 64 };

struct run_as {
    char name[RUN_AS_NAME]; /* "": no other user */
    char home[PATH_MAX];
    uid_t uid;
    gid_t gid, groups[RUN_AS_GROUPS];
    int n_groups;
};

/* `name`: of --run-as, or NULL. An error if there is no such user, it is root, or this process may
 * not become another user. */
int run_as_find(struct run_as *out, const char *name, struct err *e);
bool run_as_given(const struct run_as *as); /* is there another user? `as` NULL: no */
/* Changes this process, with all its threads, to that user. May be called between fork and exec. 0,
 * or -1 with errno. Clears PR_SET_PDEATHSIG, so the caller has to set it again. */
int run_as_become(const struct run_as *as);
/* Makes a folder that this user owns and nobody else may enter. */
int run_as_folder(const struct run_as *as, const char *path, struct err *e);
/* Prepares for running as this user. Checks that the user may execute `program`; lets it pass
 * through `data_dir`, which others may not list; and makes `data_dir`/received for what its ranks
 * receive. Returns 0 at once if there is no other user. */
int run_as_ready(const struct run_as *as, const char *program, const char *data_dir, struct err *e);

#endif

/* See run_as.h. */
#include "common/process/run_as.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process/proc.h"

int run_as_find(struct run_as *out, const char *name, struct err *e)
{
    memset(out, 0, sizeof *out);
    if (!name && geteuid() != 0) {
        return 0;
    }
    const struct passwd *user = getpwnam(name ? name : RUN_AS_USER);
    if (!name && !user) {
        return 0;
    }
    if (geteuid() != 0) {
        return err_set(e, ERR_FORBIDDEN, "--run-as '%s': only root may start ranks as another user",
                       name);
    }
    if (!user || user->pw_uid == 0) {
        return err_set(e, ERR_INVALID, "--run-as '%s': %s", name ? name : RUN_AS_USER,
                       user ? "ranks would still be root" : "this machine has no such user");
    }
    out->n_groups = RUN_AS_GROUPS;
    if (strlen(user->pw_name) >= sizeof out->name || strlen(user->pw_dir) >= sizeof out->home ||
        getgrouplist(user->pw_name, user->pw_gid, out->groups, &out->n_groups) < 0) {
        return err_set(e, ERR_TOO_LARGE,
                       "--run-as '%s': it has more than %d groups, or a long name", user->pw_name,
                       RUN_AS_GROUPS);
    }
    out->uid = user->pw_uid;
    out->gid = user->pw_gid;
    snprintf(out->name, sizeof out->name, "%s", user->pw_name);
    snprintf(out->home, sizeof out->home, "%s", user->pw_dir);
    return 0;
}

bool run_as_given(const struct run_as *as)
{
    return as && as->name[0];
}

int run_as_become(const struct run_as *as)
{
    return setgroups((size_t)as->n_groups, as->groups) == 0 &&
                   setresgid(as->gid, as->gid, as->gid) == 0 &&
                   setresuid(as->uid, as->uid, as->uid) == 0
               ? 0
               : -1;
}

int run_as_folder(const struct run_as *as, const char *path, struct err *e)
{
    struct stat st;
    int rc = proc_mkdirs(path, 0700, e);
    if (rc == 0 &&
        (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || lchown(path, as->uid, as->gid) != 0)) {
        rc = err_errno(e, ERR_IO, "cannot give the folder '%s' to the user '%s'", path, as->name);
    }
    return rc;
}

/* May the user pass through or execute this? A child asks as the user, so that the folders above
 * count. */
static bool may(const struct run_as *as, const char *path)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(run_as_become(as) == 0 && access(path, X_OK) == 0 ? 0 : 1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && status == 0;
}

/* Checks that the user may execute the program, including the folders above it. */
static int check(const struct run_as *as, const char *program, struct err *e)
{
    return may(as, program)
               ? 0
               : err_set(e, ERR_FORBIDDEN, "--run-as '%s': this user may not execute '%s'",
                         as->name, program);
}

static int reaches(const struct run_as *as, const char *folder, struct err *e)
{
    if (may(as, folder)) {
        return 0;
    }
    err_set(e, ERR_FORBIDDEN, "--run-as '%s': this user cannot pass through '%s'", as->name,
            folder);
    return err_hint(e, "a folder above it is closed to others: chmod o+x");
}

/* Lets others pass through the folder, but not list it. */
static int passage(const char *folder, struct err *e)
{
    struct stat st;
    return stat(folder, &st) == 0 && chmod(folder, (st.st_mode & 07777) | S_IXGRP | S_IXOTH) == 0
               ? 0
               : err_errno(e, ERR_IO, "cannot let others pass through '%s'", folder);
}

int run_as_ready(const struct run_as *as, const char *program, const char *data_dir, struct err *e)
{
    char received[PATH_MAX + 16];
    int rc = 0;
    snprintf(received, sizeof received, "%s/received", data_dir);
    if (run_as_given(as) && (rc = check(as, program, e)) == 0 && (rc = passage(data_dir, e)) == 0 &&
        (rc = run_as_folder(as, received, e)) == 0) {
        rc = reaches(as, data_dir, e);
    }
    return rc;
}

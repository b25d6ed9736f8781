/* What git knows of a folder: see git.h.
 *
 * Git is asked about this folder whoever owns it (a folder that is mounted into a container is
 * often another user's) and whatever the caller's GIT_… variables name (a hook sets them); it runs
 * no command that the folder's own configuration names.
 */
#include "cli/run/git.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "common/process/proc.h"

enum { LIST_BYTES = 64 << 20 };
static const double patience_seconds = 60;

static pid_t start(const char *folder, const char *output)
{
    static const char *const kept[] = {"PATH", "HOME", "XDG_CONFIG_HOME"};
    enum { KEPT = sizeof kept / sizeof *kept, BYTES = 8192 };
    const char *const argv[] = {
        "git",      "-c", "safe.directory=*", "-c",       "core.fsmonitor=false", "-C", folder,
        "ls-files", "-z", "--cached",         "--others", "--exclude-standard",   NULL};
    char variables[KEPT][BYTES];
    const char *env[KEPT + 1];
    int n = 0;
    for (int i = 0; i < KEPT; i++) {
        const char *value = getenv(kept[i]);
        if (value && snprintf(variables[n], BYTES, "%s=%s", kept[i], value) < BYTES) {
            env[n] = variables[n];
            n++;
        }
    }
    env[n] = NULL;
    struct proc_spec spec = {.argv = argv,
                             .env = env,
                             .only_env = true,
                             .stdout_path = output,
                             .new_session = true,
                             .die_with_parent = true};
    return proc_start(&spec, NULL);
}

int git_list(const char *folder, char **paths, size_t *n, struct err *e)
{
    char dir[] = "/tmp/evenstep-pack-XXXXXX", output[64];
    int rc = GIT_NOT_THERE;
    if (!mkdtemp(dir)) {
        return err_errno(e, ERR_IO, "cannot ask git for the files of '%.300s'", folder);
    }
    snprintf(output, sizeof output, "%s/files", dir);
    pid_t pid = start(folder, output);
    int code = pid > 0 ? proc_await(pid, patience_seconds) : 1;
    if (code < 0) {
        err_set(e, ERR_TIMEOUT, "git has not listed the files of '%.300s' within %g s", folder,
                patience_seconds);
        rc = -(int)ERR_TIMEOUT;
    } else if (code == 0) {
        *paths = proc_read_file(output, LIST_BYTES, n, e);
        rc = *paths ? GIT_LISTED : -(int)(e ? e->code : ERR_IO);
    }
    proc_remove_tree(dir, NULL);
    return rc;
}

/* See ask.h. */
#include "coordinator/planning/ask.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/proc.h"
#include "job/documents/results/scored.h"

int ask_folder(char dir[64], struct err *e)
{
    snprintf(dir, 64, "/tmp/evenstep-check-XXXXXX");
    return mkdtemp(dir) ? 0 : err_errno(e, ERR_IO, "cannot make a folder in /tmp");
}

json_t *ask_program(const char *const *argv, const char *dir, const struct ask_limits *limits,
                    struct err *e)
{
    char out[PATH_MAX], err[PATH_MAX];
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(err, sizeof err, "%s/err", dir);
    struct proc_spec spec = {
        .argv = argv, .stdout_path = out, .stderr_path = err, .memory_bytes = limits->memory_bytes};
    pid_t pid = proc_start(&spec, e);
    int code = 0;
    if (pid < 0) {
        return NULL;
    }
    double until = clock_now() + limits->seconds, nap = 0.002;
    while (!proc_poll(pid, &code)) {
        if (clock_now() > until) {
            proc_stop(pid, 0);
            err_set(e, ERR_TIMEOUT, "'%s %s' did not answer within %g s", argv[0], argv[1],
                    limits->seconds);
            return NULL;
        }
        clock_sleep(nap);
        nap = nap < 0.02 ? nap * 1.5 : nap;
    }
    json_t *j = jsonx_load(out, 64 << 20, code == 0 ? e : NULL);
    if (code != 0 && !scored_is_refusal(j, ERR_DATA, NULL)) {
        json_decref(j);
        j = NULL;
        char *said = proc_read_file(err, 1 << 20, NULL, NULL);
        err_set(e, ERR_INTERNAL, "'%s %s' ended with code %d: %.200s", argv[0], argv[1], code,
                said ? said : "");
        free(said);
    }
    return j;
}

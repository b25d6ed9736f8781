/* Launcher of real attempts: one mpirun per attempt, W workers and the servers as its ranks (DESIGN.md decision 2).
 *
 *   evenstep serve ─ mpirun (own session) ─┬─ evenstep-worker rank 0 … W-1
 *                                          └─ evenstep-worker rank W (keeper)
 *
 * The options come from measurements (PLATFORM.md): ranks outnumber cores, so they are not bound and yield; containers refuse
 * the shared-memory single copy. Open MPI's own files go to a short folder per attempt in /tmp and /dev/shm (socket
 * paths have 107 bytes), which is removed afterwards, because a killed mpirun leaves them behind.
 */
#include "coordinator/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/proc.h"

static char *session_dir(char out[64], const char *parent, const struct attempt *a)
{
    snprintf(out, 64, "%s/es-%d-%.8s-%d", parent, (int)geteuid(), a->job, a->number);
    return out;
}

/* Ours alone, new: a folder that somebody else put there is not used. */
static bool make_session_dir(const char *path)
{
    proc_remove_tree(path, NULL);
    return mkdir(path, 0700) == 0;
}

static int mpirun_start(void *ctx, struct attempt *a, const json_t *plan, struct err *e)
{
    const struct launcher_config *c = ctx;
    size_t workers = json_array_size(json_object_get(plan, "workers"));
    int ranks = (int)workers + (int)json_integer_value(json_object_get(plan, "servers"));
    char np[16], host[32], number[16], tmp[64], shm[64], job_env[64], attempt_env[64], password_env[600];
    snprintf(np, sizeof np, "%d", ranks);
    snprintf(host, sizeof host, "localhost:%d", ranks);
    snprintf(number, sizeof number, "%d", a->number);
    const char *argv[64] = {"mpirun", "--tag-output", "--host", host, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle",
                            "1", "--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "btl", "vader,self", "--mca",
                            "orte_base_help_aggregate", "0"};
    int n = 0;
    while (argv[n]) {
        n++;
    }
    if (make_session_dir(session_dir(tmp, "/tmp", a))) {
        argv[n++] = "--mca";
        argv[n++] = "orte_tmpdir_base";
        argv[n++] = tmp;
    }
    if (make_session_dir(session_dir(shm, "/dev/shm", a))) {
        argv[n++] = "--mca";
        argv[n++] = "btl_vader_backing_directory";
        argv[n++] = shm;
    }
    const char *rest[] = {"-np", np, c->program, "--job", a->job, "--attempt", number, "--store", c->store_url};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        argv[n++] = rest[i];
    }
    const char *env[8];
    int m = 0;
    snprintf(job_env, sizeof job_env, "EVENSTEP_JOB=%s", a->job);
    snprintf(attempt_env, sizeof attempt_env, "EVENSTEP_ATTEMPT=%d", a->number);
    env[m++] = job_env;
    env[m++] = attempt_env;
    if (c->store_password) {
        snprintf(password_env, sizeof password_env, "EVENSTEP_STORE_PASSWORD=%s", c->store_password);
        env[m++] = password_env;
    }
    if (geteuid() == 0) {
        env[m++] = "OMPI_ALLOW_RUN_AS_ROOT=1";
        env[m++] = "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    }
    env[m++] = "OMP_WAIT_POLICY=passive";
    env[m] = NULL;
    int rc = attempt_start(c->data_dir, a, argv, env, e);
    if (rc < 0) {
        err_hint(e, "install Open MPI (package openmpi-bin)");
    }
    return rc;
}

static void clean(const struct attempt *a)
{
    char dir[64];
    proc_remove_tree(session_dir(dir, "/tmp", a), NULL);
    proc_remove_tree(session_dir(dir, "/dev/shm", a), NULL);
}

static int mpirun_poll(void *ctx, const struct attempt *a, int *exit_code, char *why, size_t why_bytes)
{
    const struct launcher_config *c = ctx;
    return attempt_poll(c->data_dir, a, exit_code, why, why_bytes);
}

static void mpirun_stop(void *ctx, const struct attempt *a, double grace)
{
    (void)ctx;
    attempt_stop(a, grace);
    clean(a);
}

static int launcher_init(struct launcher *out, const struct launcher_config *config, struct err *e)
{
    struct launcher_config *copy = malloc(sizeof *copy);
    if (!copy) {
        return err_set(e, ERR_MEMORY, "cannot open a launcher: memory ran out");
    }
    *copy = *config;
    out->ctx = copy;
    return 0;
}

int launcher_mpirun_init(struct launcher *out, const struct launcher_config *config, struct err *e)
{
    *out = (struct launcher){NULL, "mpirun", mpirun_start, mpirun_poll, mpirun_stop};
    return launcher_init(out, config, e);
}

void launcher_release(struct launcher *l)
{
    free(l->ctx);
    l->ctx = NULL;
}

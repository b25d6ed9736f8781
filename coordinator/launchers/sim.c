/* Launcher of virtual jobs: evenstep-simulate on the spec's `cluster` (docs/virtual-cluster.md).
 * One niced process on this host; the coordinator learns how it went from jobs/ID/summary.json, and
 * its rows are in jobs/ID/history as a real job's are.
 */
#include "coordinator/launchers/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json/jsonx.h"
#include "common/process/proc.h"

static int write_json(const char *dir, const char *name, const json_t *j, char *path, struct err *e)
{
    size_t n = 0;
    char *text = jsonx_dump(j, true, &n);
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    int rc = text ? proc_write_file(path, text, n, 0644, e)
                  : err_set(e, ERR_MEMORY, "cannot write '%s': memory ran out", path);
    free(text);
    return rc;
}

static int sim_start(void *ctx, struct attempt *a, const struct plan *plan, struct err *e)
{
    const struct launcher_config *c = ctx;
    char dir[PATH_MAX], job[PATH_MAX], cluster[PATH_MAX], job_env[64], attempt_env[64];
    if (access(c->program, X_OK) != 0) {
        err_set(e, ERR_UNSUPPORTED, "cannot run a virtual job: '%s' does not exist", c->program);
        return -ERR_UNSUPPORTED;
    }
    snprintf(dir, sizeof dir, "%s/jobs/%s", c->data_dir, a->job);
    int rc;
    json_t *plain = json_copy(plan->spec), *nodes = json_incref(json_object_get(plain, "cluster"));
    json_object_del(plain, "cluster");
    if ((rc = proc_mkdirs(dir, 0755, e)) < 0 ||
        (rc = write_json(dir, "job.json", plain, job, e)) < 0 ||
        (rc = write_json(dir, "cluster.json", nodes, cluster, e)) < 0) {
        goto out;
    }
    snprintf(job_env, sizeof job_env, "EVENSTEP_JOB=%s", a->job);
    snprintf(attempt_env, sizeof attempt_env, "EVENSTEP_ATTEMPT=%d", a->number);
    const char *argv[] = {"nice",      "-n",    "10",    c->program, "--job", job,
                          "--cluster", cluster, "--out", dir,        NULL};
    const char *env[] = {job_env, attempt_env, NULL};
    rc = attempt_start(c->data_dir, a, argv, env, e);
out:
    json_decref(plain);
    json_decref(nodes);
    return rc;
}

static bool sim_poll(void *ctx, const struct attempt *a, struct attempt_end *end)
{
    static const char *const telling[] = {"error", NULL};
    return attempt_poll(((const struct launcher_config *)ctx)->data_dir, a, telling, end);
}

static void sim_stop(void *ctx, const struct attempt *a, double grace)
{
    (void)ctx;
    attempt_stop(a, grace);
}

int launcher_sim_init(struct launcher *out, const struct launcher_config *config, struct err *e)
{
    struct launcher_config *copy = malloc(sizeof *copy);
    *out = (struct launcher){copy, "simulator", sim_start, attempt_find, sim_poll, sim_stop};
    if (!copy) {
        return err_set(e, ERR_MEMORY, "cannot open a launcher: memory ran out");
    }
    *copy = *config;
    return 0;
}

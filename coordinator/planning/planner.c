/* The plan of an attempt: see planner.h. */
#include "coordinator/planning/planner.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/files/programs.h"
#include "coordinator/planning/profiles.h"
#include "job/node/device_kind.h"

/* Minibatches are multiples of the smallest quantum among the workers' devices. */
static int quantum_of(const struct placement *p)
{
    int least = 0;
    for (int i = 0; i < p->count; i++) {
        least = device_kind_least_quantum(least, p->nodes[i].device);
    }
    return least;
}

/* Notes the nodes' relative speeds, by which the test set is shared out: samples per second of the
 * profile, else a guess. Their mean is 1. */
static void note_speeds(struct plan *plan, const struct placement *p,
                        struct profile *const *profiles, int batch)
{
    double sum = 0;
    bool profiled = true;
    for (int i = 0; profiled && i < p->count; i++) {
        profiled = profiles[i] != NULL && profile_seconds(profiles[i], batch) > 0;
    }
    for (int i = 0; i < p->count; i++) {
        plan->speeds[i] =
            profiled ? batch / profile_seconds(profiles[i], batch) : p->nodes[i].speed;
        sum += plan->speeds[i];
    }
    for (int i = 0; i < p->count; i++) {
        plan->speeds[i] = sum > 0 ? plan->speeds[i] * p->count / sum : 1.0;
    }
}

static void note_worker(struct plan_worker *w, const struct placed *n)
{
    snprintf(w->node, sizeof w->node, "%s", n->name);
    snprintf(w->host, sizeof w->host, "%s", n->host);
    snprintf(w->device, sizeof w->device, "%s", n->device);
    snprintf(w->address, sizeof w->address, "%s", n->address);
    w->slowdown = n->slowdown;
    w->threads = n->threads;
    w->agent = n->agent;
}

/* Fills the plan's workers with the nodes and what their devices measured before; returns their
 * profiles. */
static struct profile **note_workers(struct plan *plan, const struct planner_ask *ask)
{
    const struct placement *p = ask->placement;
    struct profile **profiles = calloc((size_t)p->count + 1, sizeof *profiles);
    char key[PROFILES_KEY];
    profiles_key(ask->spec, key);
    plan->workers = calloc((size_t)p->count + 1, sizeof *plan->workers);
    plan->n_workers = plan->workers ? p->count : 0;
    for (int i = 0; profiles && i < plan->n_workers; i++) {
        const struct placed *n = &p->nodes[i];
        struct measured kept;
        note_worker(&plan->workers[i], n);
        if (profiles_find(ask->store, n->name, n->device, key, &kept)) {
            profiles[i] = profiles_of(&kept, n->slowdown);
            plan->workers[i].tuning = json_incref(kept.tuning);
        }
        measured_release(&kept);
    }
    return profiles;
}

/* Sets path to ROOT/NAME if that is a file beneath ROOT once links are resolved. */
static bool beneath(const char *root, size_t root_len, const char *name, char *path)
{
    char base[PATH_MAX], asked[PATH_MAX], real[PATH_MAX];
    snprintf(asked, sizeof asked, "%.*s", (int)root_len, root);
    if (!realpath(asked, base)) {
        return false;
    }
    if ((size_t)snprintf(asked, sizeof asked, "%s/%s", base, name) >= sizeof asked ||
        !realpath(asked, real)) {
        return false;
    }
    size_t n = strlen(base);
    if (strncmp(real, base, n) != 0 || (real[n] != '/' && n > 1)) {
        return false;
    }
    snprintf(path, PATH_MAX, "%s", real);
    return true;
}

int planner_find_init(const char *init, const char *roots, const char *data_dir, char *path,
                      struct err *e)
{
    if (init[0] == '/') {
        return err_set(
            e, ERR_INVALID,
            "cannot start from '%s': the path is looked up beneath the data roots and must be "
            "relative",
            init);
    }
    for (const char *r = roots; r && *r;) {
        size_t n = strcspn(r, ":");
        if (n && beneath(r, n, init, path)) {
            return 0;
        }
        r += n + (r[n] == ':');
    }
    char root[PATH_MAX], name[SPEC_PATH + 16];
    const char *slash = strchr(init, '/');
    if (slash) { /* JOB/model.safetensors is JOB/artifacts/model.safetensors */
        snprintf(root, sizeof root, "%s/jobs", data_dir);
        snprintf(name, sizeof name, "%.*s/artifacts%s", (int)(slash - init), init, slash);
        if (beneath(root, strlen(root), name, path) || beneath(root, strlen(root), init, path)) {
            return 0;
        }
    }
    return err_set(
        e, ERR_NOT_FOUND,
        "cannot start from '%s': there is no such file beneath '%s' or among the artifacts", init,
        roots);
}

/* Checks again what depends on the number of workers, since a restart may have fewer. The global
 * batch stays. */
static int check_workers(const struct jobspec *spec, int workers, struct err *e)
{
    struct jobspec *fewer = workers != spec->workers ? calloc(1, sizeof *fewer) : NULL;
    json_t *j = fewer ? jobspec_resized(spec->json, workers) : NULL;
    int rc = 0;
    if (workers == spec->workers) {
        return 0;
    }
    if (!j) {
        free(fewer);
        return err_set(e, ERR_MEMORY, "cannot plan for %d workers: memory ran out", workers);
    }
    if (jobspec_read(fewer, j, e) < 0) {
        rc =
            err_prefix(e, "the job cannot go on with %d of its %d workers", workers, spec->workers);
    }
    jobspec_release(fewer);
    free(fewer);
    json_decref(j);
    return rc;
}

static struct plan *new_plan(const struct planner_ask *ask, struct err *e)
{
    struct plan *p = calloc(1, sizeof *p);
    if (!p) {
        err_set(e, ERR_MEMORY, "cannot make the plan of job '%s': memory ran out", ask->job);
        return NULL;
    }
    p->from = (struct sender){.attempt = ask->attempt, .rank = COORDINATOR};
    snprintf(p->from.job, sizeof p->from.job, "%s", ask->job);
    p->spec = json_incref(ask->spec->json);
    snprintf(p->job_dir, sizeof p->job_dir, "%s/jobs/%s", ask->data_dir, ask->job);
    return p;
}

struct plan *planner_make_virtual(const struct planner_ask *ask, struct err *e)
{
    return new_plan(ask, e);
}

static int first_sizes(struct plan *plan, const struct planner_ask *ask,
                       struct profile *const *profiles, struct assignment *first, struct err *e)
{
    int rc = assign_first(first, &ask->spec->batching, ask->placement->count,
                          (const struct profile *const *)profiles, quantum_of(ask->placement), e);
    if (rc < 0) {
        return rc;
    }
    first->version = plan->first_version = ask->version;
    memcpy(plan->first_sizes, first->sizes, sizeof plan->first_sizes);
    return 0;
}

struct plan *planner_make(const struct planner_ask *ask, struct assignment *first, struct err *e)
{
    const struct jobspec *spec = ask->spec;
    int workers = ask->placement->count, share = spec->batching.global_batch / workers;
    struct plan *plan = new_plan(ask, e);
    struct profile **profiles = plan ? note_workers(plan, ask) : NULL;
    if (!plan) {
        return NULL;
    }
    plan->servers = spec->strategy.servers;
    snprintf(plan->roots, sizeof plan->roots, "%s", ask->roots ? ask->roots : "");
    int rc =
        profiles && plan->workers
            ? check_workers(spec, workers, e)
            : err_set(e, ERR_MEMORY, "cannot make the plan of job '%s': memory ran out", ask->job);
    if (rc >= 0 && spec->init[0]) {
        rc = planner_find_init(spec->init, ask->roots, ask->data_dir, plan->init_path, e);
    }
    if (rc >= 0 && spec->program.given) {
        rc = programs_plan(plan, spec, ask->data_dir, e);
    }
    if (rc >= 0) {
        rc = first_sizes(plan, ask, profiles, first, e);
    }
    if (rc >= 0) {
        note_speeds(plan, ask->placement, profiles, share > 0 ? share : 1);
    }
    profiles_free(profiles, workers);
    if (rc < 0) {
        planner_free(plan);
        return NULL;
    }
    return plan;
}

void planner_free(struct plan *p)
{
    if (p) {
        plan_release(p);
    }
    free(p);
}

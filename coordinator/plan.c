/* The plan of an attempt: see plan.h. */
#include "coordinator/plan.h"

#include "coordinator/programs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Multiples of minibatches: 8 where every worker is a GPU (DESIGN.md decision 7), else 4. */
static int quantum_of(const struct placement *p)
{
    for (int i = 0; i < p->count; i++) {
        if (strncmp(p->nodes[i].device, "cuda", 4) != 0) {
            return 4;
        }
    }
    return 8;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
    }
    return h;
}

void plan_profile_key(const struct jobspec *spec, char out[PLAN_KEY])
{
    bool usual = !spec->precision[0] || strcmp(spec->precision, "fp32") == 0;
    char hash[17];
    if (spec->program.given) { /* its network is not known before it runs */
        char *text =
            json_dumps(json_object_get(spec->json, "program"), JSON_COMPACT | JSON_SORT_KEYS);
        snprintf(out, PLAN_KEY, "program-%016llx", (unsigned long long)hash_text(text ? text : ""));
        free(text);
        return;
    }
    network_hash(&spec->network, hash);
    snprintf(out, PLAN_KEY, "%s%s%s", hash, usual ? "" : "-", usual ? "" : spec->precision);
}

/* What the store keeps of this node for the network, if it was this device that was measured; else
 * NULL. New reference. */
static json_t *read_kept(struct store *store, const char *node, const char *device,
                         const char *nethash)
{
    json_t *kept = store_profile_get(store, node, nethash, NULL);
    const char *measured = json_string_value(json_object_get(kept, "device"));
    if (measured && strcmp(measured, device) == 0) {
        return kept;
    }
    json_decref(kept);
    return NULL;
}

/* A profile belongs to a device at a speed: one of another slowdown tells nothing. */
static struct profile *profile_of(const json_t *kept, double slowdown)
{
    bool same = kept && json_number_value(json_object_get(kept, "slowdown")) == slowdown;
    struct profile *p = same ? calloc(1, sizeof *p) : NULL;
    if (p && (profile_read(p, kept) < 0 || (p->count < 1 && p->max_batch < 1))) {
        free(p);
        p = NULL;
    }
    return p;
}

struct profile *plan_profile(struct store *store, const char *node, const char *device,
                             double slowdown, const char *nethash)
{
    json_t *kept = read_kept(store, node, device, nethash);
    struct profile *p = profile_of(kept, slowdown);
    json_decref(kept);
    return p;
}

/* read_kept of each node, null where there is nothing. */
static json_t *read_all(struct store *store, const struct jobspec *spec, const struct placement *p)
{
    char hash[PLAN_KEY];
    json_t *out = json_array();
    plan_profile_key(spec, hash);
    for (int i = 0; i < p->count; i++) {
        json_t *kept = read_kept(store, p->nodes[i].name, p->nodes[i].device, hash);
        json_array_append_new(out, kept ? kept : json_null());
    }
    return out;
}

static struct profile **profiles_of(const json_t *kept, const struct placement *p)
{
    struct profile **out = calloc((size_t)p->count + 1, sizeof *out);
    for (int i = 0; out && i < p->count; i++) {
        out[i] = profile_of(json_array_get(kept, (size_t)i), p->nodes[i].slowdown);
    }
    return out;
}

struct profile **plan_profiles(struct store *store, const struct jobspec *spec,
                               const struct placement *p)
{
    json_t *kept = read_all(store, spec, p);
    struct profile **out = profiles_of(kept, p);
    json_decref(kept);
    return out;
}

void plan_profiles_free(struct profile **profiles, int count)
{
    for (int i = 0; profiles && i < count; i++) {
        free(profiles[i]);
    }
    free(profiles);
}

/* kept: of read_all; a node's `tuning` is what an earlier job measured to choose algorithms on its
 * device (dev_tuning). */
static json_t *workers_json(const struct placement *p, const json_t *kept)
{
    json_t *out = json_array();
    for (int i = 0; i < p->count; i++) {
        const struct placed *n = &p->nodes[i];
        json_t *worker =
            json_pack("{s:i, s:s, s:s, s:s, s:f, s:i}", "rank", i, "node", n->name, "host", n->host,
                      "device", n->device, "slowdown", n->slowdown, "threads", n->threads);
        if (n->agent) {
            json_object_set_new(worker, "agent", json_true());
            json_object_set_new(worker, "address", json_string(n->address));
        }
        json_t *tuning = json_object_get(json_array_get(kept, (size_t)i), "tuning");
        if (tuning) {
            json_object_set(worker, "tuning", tuning);
        }
        json_array_append_new(out, worker);
    }
    return out;
}

/* Relative speeds, for sharing out the test set: samples per second of the profile, else a guess;
 * the mean is 1. */
static json_t *speeds_json(const struct placement *p, struct profile *const *profiles, int batch)
{
    double *speed = calloc((size_t)p->count, sizeof *speed), sum = 0;
    bool profiled = profiles != NULL;
    for (int i = 0; profiled && i < p->count; i++) {
        profiled = profiles[i] != NULL && profile_seconds(profiles[i], batch) > 0;
    }
    for (int i = 0; speed && i < p->count; i++) {
        speed[i] = profiled ? batch / profile_seconds(profiles[i], batch) : p->nodes[i].speed;
        sum += speed[i];
    }
    json_t *out = json_array();
    for (int i = 0; i < p->count; i++) {
        json_array_append_new(out, json_real(speed && sum > 0 ? speed[i] * p->count / sum : 1.0));
    }
    free(speed);
    return out;
}

static json_t *roots_json(const char *roots)
{
    json_t *out = json_array();
    while (roots && *roots) {
        size_t n = strcspn(roots, ":");
        if (n) {
            json_array_append_new(out, json_stringn(roots, n));
        }
        roots += n + (roots[n] == ':');
    }
    return out;
}

/* path = ROOT/NAME if that is a file beneath ROOT once links are resolved. */
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

int plan_find_init(const char *init, const char *roots, const char *data_dir, char *path,
                   struct err *e)
{
    if (init[0] == '/') {
        return err_set(
            e, ERR_INVALID,
            "cannot start from '%s': the path is looked up beneath the data roots and must be relative",
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

/* What depends on the number of workers is judged again when a restart has fewer; the global batch
 * stays. */
static int check_workers(const struct jobspec *spec, int workers, struct err *e)
{
    struct jobspec *fewer = workers != spec->workers ? calloc(1, sizeof *fewer) : NULL;
    json_t *j = fewer ? json_deep_copy(spec->json) : NULL;
    int rc = 0;
    if (workers == spec->workers) {
        return 0;
    }
    if (!j) {
        free(fewer);
        return err_set(e, ERR_MEMORY, "cannot plan for %d workers: memory ran out", workers);
    }
    json_object_set_new(j, "workers", json_integer(workers));
    if (jobspec_read(fewer, j, e) < 0) {
        rc =
            err_prefix(e, "the job cannot go on with %d of its %d workers", workers, spec->workers);
    }
    jobspec_release(fewer);
    free(fewer);
    json_decref(j);
    return rc;
}

json_t *plan_make(const struct plan_ask *ask, struct assignment *first, struct err *e)
{
    const struct jobspec *spec = ask->spec;
    const struct placement *p = ask->placement;
    char job_dir[PATH_MAX], init[PATH_MAX] = "", folder[PATH_MAX] = "";
    json_t *plan = NULL, *sizes = json_array(), *full = NULL;
    json_t *kept = read_all(ask->store, spec, p);
    struct profile **profiles = profiles_of(kept, p);
    if (check_workers(spec, p->count, e) < 0) {
        goto out;
    }
    full = spec->program.given ? programs_resolve(spec, ask->data_dir, folder, e)
                               : json_incref(spec->json);
    if (!full) {
        goto out;
    }
    if (spec->init[0] && plan_find_init(spec->init, ask->roots, ask->data_dir, init, e) < 0) {
        goto out;
    }
    if (assign_first(first, &spec->batching, p->count, (const struct profile *const *)profiles,
                     quantum_of(p), e) < 0) {
        goto out;
    }
    first->version = ask->version;
    for (int i = 0; i < p->count; i++) {
        json_array_append_new(sizes, json_integer(first->sizes[i]));
    }
    snprintf(job_dir, sizeof job_dir, "%s/jobs/%s", ask->data_dir, ask->job);
    int servers = spec->strategy.servers > 0 ? spec->strategy.servers : 1;
    json_t *speeds = speeds_json(
        p, profiles,
        spec->batching.global_batch / p->count > 0 ? spec->batching.global_batch / p->count : 1);
    plan = json_pack("{s:s, s:i, s:O, s:o, s:i, s:s, s:o, s:o, s:{s:i, s:O}, s:o, s:o}", "job",
                     ask->job, "attempt", ask->attempt, "spec", full, "workers",
                     workers_json(p, kept), "servers", servers, "job_dir", job_dir, "data_roots",
                     roots_json(ask->roots), "init_path", init[0] ? json_string(init) : json_null(),
                     "first", "version", first->version, "sizes", sizes, "speeds", speeds,
                     "program_folder", folder[0] ? json_string(folder) : json_null());
    if (!plan) {
        err_set(e, ERR_MEMORY, "cannot make the plan of job '%s': memory ran out", ask->job);
    }
out:
    json_decref(full);
    json_decref(sizes);
    json_decref(kept);
    plan_profiles_free(profiles, p->count);
    return plan;
}

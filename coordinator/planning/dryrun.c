/* Dry runs and data sets: see dryrun.h. The worker's program checks data sets, strategies and the
 * files that `init` names (`--check`, `--datasets`), within 5 s; the coordinator itself checks
 * placement and profiles.
 */
#include "coordinator/planning/dryrun.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/answer.h"
#include "common/process/proc.h"
#include "coordinator/files/programs.h"
#include "coordinator/files/uploads.h"
#include "coordinator/planning/ask.h"
#include "coordinator/planning/needs.h"
#include "coordinator/planning/planner.h"
#include "coordinator/planning/profiles.h"
#include "job/documents/people/warning.h"
#include "job/documents/results/checked.h"
#include "job/documents/results/scored.h"
#include "job/node/node.h"

static const struct ask_limits usual = {.seconds = 5};
static const double upload_seconds = 110; /* clients wait for 120 */
static const int64_t upload_memory = (int64_t)4 << 30;
static const char batch_pointer[] = "/batching/global_batch";

/* The JSON pointer to the number of nodes that a spec asks for. */
static const char *nodes_pointer(const struct jobspec *spec)
{
    return spec->n_nodes ? "/nodes" : "/workers";
}

json_t *dryrun_datasets(void *ctx, struct err *e)
{
    const struct dryrun *d = ctx;
    char dir[64], cache[PATH_MAX];
    const char *argv[] = {d->worker, "--datasets", d->roots, "--cache", cache, NULL};
    snprintf(cache, sizeof cache, "%s/datasets.json", d->data_dir);
    json_t *j = answer_folder(dir, e) < 0 ? NULL : ask_program(argv, dir, &usual, e);
    proc_remove_tree(dir, NULL);
    return j;
}

/* See datasets_show. whole: "--whole", or NULL. */
static json_t *show(const struct dryrun *d, const char *roots, const char *path, const char *whole,
                    const struct ask_limits *limits, struct err *e)
{
    char dir[64];
    const char *argv[] = {d->worker, "--datasets", roots, "--show", path, whole, NULL};
    json_t *j = answer_folder(dir, e) < 0 ? NULL : ask_program(argv, dir, limits, e);
    proc_remove_tree(dir, NULL);
    if (scored_is_refusal(j, ERR_NOT_FOUND, e)) {
        json_decref(j);
        j = NULL;
    }
    return j;
}

json_t *dryrun_dataset(void *ctx, const char *path, struct err *e)
{
    const struct dryrun *d = ctx;
    return show(d, d->roots, path, NULL, &usual, e);
}

/* Reading an upload for the first time may take a while, and a packed file of a few megabytes may
 * unpack to gigabytes in this host's memory. */
static json_t *show_upload(void *ctx, const char *roots, const char *name, struct err *e)
{
    int64_t half = (int64_t)sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
    const struct ask_limits limits = {.seconds = upload_seconds,
                                      .memory_bytes = half < upload_memory ? half : upload_memory};
    return show(ctx, roots, name, "--whole", &limits, e);
}

json_t *dryrun_dataset_add(void *ctx, const char *name, FILE *archive, const char *who, bool *fresh,
                           struct jsonx_problems *problems, struct err *e)
{
    const struct dryrun *d = ctx;
    const struct dataset_upload up = {.name = name, .by = who, .archive = archive};
    return datasets_add(&d->uploaded, &up, show_upload, ctx, fresh, problems, e);
}

int dryrun_dataset_delete(void *ctx, const char *name, struct err *e)
{
    const struct dryrun *d = ctx;
    struct store *store = store_open(d->store_url, d->store_password, e);
    int rc = store ? datasets_delete(&d->uploaded, store, name, e) : -(int)e->code;
    store_close(store);
    return rc;
}

/* Asks the worker's program, or the simulator's, what is wrong with a spec. The worker's also
 * checks the file of its `init` (NULL: none). Release `out` in any case. */
static int check_spec(const struct dryrun *d, const json_t *spec, const char *init, bool simulator,
                      struct checked *out, struct err *e)
{
    char dir[64], file[128];
    size_t n = 0;
    char *text = jsonx_dump(spec, false, &n);
    memset(out, 0, sizeof *out);
    int rc = answer_folder(dir, e);
    if (rc < 0) {
        free(text);
        return rc;
    }
    snprintf(file, sizeof file, "%s/spec.json", dir);
    const char *worker[] = {d->worker, "--check", file, "--roots", d->roots, init ? "--init" : NULL,
                            init,      NULL};
    const char *virtual[] = {d->simulator, "--check", "--job", file, "--data", d->roots, NULL};
    rc = text ? proc_write_file(file, text, n, 0600, e)
              : err_set(e, ERR_MEMORY, "cannot check the spec: memory ran out");
    json_t *j = rc < 0 ? NULL : ask_program(simulator ? virtual : worker, dir, &usual, e);
    rc = j ? checked_read(out, j, e) : -(int)e->code;
    json_decref(j);
    free(text);
    proc_remove_tree(dir, NULL);
    return rc;
}

static void take_problems(struct jsonx_problems *problems, const struct jsonx_problems *errors)
{
    for (int i = 0; i < errors->count; i++) {
        jsonx_problem(problems, errors->items[i].pointer, "%s", errors->items[i].message);
    }
}

static void warn_overlong(json_t *warnings, const struct placement *p,
                          const struct checked *checked)
{
    for (int i = 0; i < p->count; i++) {
        double needed = i < checked->workers ? (double)checked->memory_bytes[i] : 0;
        if (p->nodes[i].memory_bytes > 0 && needed > 0.9 * (double)p->nodes[i].memory_bytes) {
            json_array_append_new(
                warnings,
                warning_json(WARNING_MEMORY_SHORT, batch_pointer,
                             "node '%s' has %.1f GB of memory, and its minibatch needs about %.1f",
                             p->nodes[i].name, (double)p->nodes[i].memory_bytes / 1e9,
                             needed / 1e9));
        }
    }
}

/* Warns of a global batch above the training set: a step never takes as many samples as was asked
 * for. */
static void warn_never_full(json_t *warnings, const struct jobspec *spec, int64_t samples)
{
    if (samples > 0 && spec->batching.global_batch > samples) {
        json_array_append_new(
            warnings, warning_json(WARNING_BATCH_TOO_LARGE, batch_pointer,
                                   "the training set has %lld samples; a step takes at most %lld",
                                   (long long)samples, (long long)samples));
    }
}

/* First minibatches on these nodes, with the profiles of earlier jobs. */
static json_t *nodes_json(struct store *store, const struct jobspec *spec,
                          const struct placement *p, const struct checked *checked,
                          struct jsonx_problems *problems)
{
    struct err why = {0};
    json_t *out = json_array();
    struct assignment *first = calloc(1, sizeof *first);
    struct profile **profiles = profiles_all(store, spec, p);
    if (first && assign_first(first, &spec->batching, p->count,
                              (const struct profile *const *)profiles, 4, &why) < 0) {
        jsonx_problem(problems, "/batching", "%s", why.message);
    }
    for (int i = 0; first && i < p->count; i++) {
        json_t *memory =
            i < checked->workers ? json_integer((json_int_t)checked->memory_bytes[i]) : json_null();
        /* a program reports its global batch once it runs */
        json_t *batch = spec->batching.global_batch > 0
                            ? json_integer(assign_slice(spec, first->sizes[i], checked->samples))
                            : json_null();
        json_array_append_new(out, json_pack("{s:i, s:s, s:s, s:o, s:o}", "rank", i, "node",
                                             p->nodes[i].name, "device", p->nodes[i].device,
                                             "batch", batch, "memory_bytes", memory));
    }
    profiles_free(profiles, p->count);
    free(first);
    return out;
}

static bool has_agent(const json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        if (node_has_agent(node)) {
            return true;
        }
    }
    return false;
}

/* Can there never be enough nodes? Where no host can join, a job that asks for more nodes than
 * there are would wait for ever, which is an error. Elsewhere it waits for hosts to join. */
static bool is_never_enough(const struct dryrun *d, const struct placement_ask *ask,
                            const char *waiting, struct jsonx_problems *problems)
{
    if (!d->alone || has_agent(ask->nodes) ||
        placement_known(ask) >= jobspec_least_workers(ask->spec)) {
        return false;
    }
    jsonx_problem(
        problems, nodes_pointer(ask->spec),
        "this can never run: %s; hosts cannot join a service that keeps a store of its own (see "
        "its options --local-node and --store)",
        waiting);
    return true;
}

static void tell_lacking(const json_t *node, const struct placement_ask *ask,
                         struct jsonx_problems *problems)
{
    char needs[NEEDS_TEXT];
    if (needs_answer(node, ask->manifest) != NEEDS_LACKING) {
        jsonx_problem(problems, "/precision",
                      "node '%s' (%s) does not compute in %s, and too few others do",
                      node_name(node), node_device(node), ask->spec->precision);
    } else {
        jsonx_problem(problems, "/program", "%s; too few others have it",
                      needs_sentence(node, ask->manifest, needs));
    }
}

/* Places the job as if every node were free, then as the nodes are now, to say whether it starts at
 * once. */
static json_t *place_job(const struct dryrun *d, struct store *store, const struct jobspec *spec,
                         const struct checked *checked, struct jsonx_problems *problems,
                         struct err *e)
{
    json_t *nodes = store_nodes(store, e), *warnings = json_array(), *placed = NULL,
           *manifest = programs_manifest(spec, d->data_dir);
    struct placement_ask ask = {.nodes = nodes,
                                .local_host = d->local_host,
                                .spec = spec,
                                .manifest = manifest,
                                .attempt = 1,
                                .ignore_claims = true};
    struct placement all = {0}, now = {0};
    char starts[540] = "now";
    if (!nodes) {
        json_decref(warnings);
        json_decref(manifest);
        return NULL;
    }
    const json_t *lacking = placement_lacking(&ask);
    if (lacking) {
        tell_lacking(lacking, &ask, problems);
    }
    if (spec->batching.global_batch == 0) {
        json_array_append_new(
            warnings, warning_json(WARNING_BATCH_UNKNOWN, batch_pointer,
                                   "minibatches are shared out once the program has told the "
                                   "batch of its loader"));
    }
    warn_never_full(warnings, spec, checked->samples);
    if (placement_find(&all, &ask)) {
        placed = nodes_json(store, spec, &all, checked, problems);
        warn_overlong(warnings, &all, checked);
        ask.ignore_claims = false;
        if (!placement_find(&now, &ask)) {
            snprintf(starts, sizeof starts, "waits for nodes: %s", now.waiting);
        }
    } else if (!lacking && !is_never_enough(d, &ask, all.waiting, problems)) {
        snprintf(starts, sizeof starts, "waits for nodes: %s", all.waiting);
        json_array_append_new(warnings,
                              warning_json(WARNING_NODES_SHORT, nodes_pointer(spec),
                                           "the job would wait in the queue: %s", all.waiting));
    }
    placement_release(&all);
    placement_release(&now);
    json_decref(nodes);
    json_decref(manifest);
    return json_pack("{s:o, s:o, s:s}", "nodes", placed ? placed : json_array(), "warnings",
                     warnings, "starts", starts);
}

/* The answer for a virtual job. It takes no node, but this host may have too little memory for
 * it. */
static json_t *virtual_plan(const struct dryrun *d, const struct jobspec *spec, int64_t samples,
                            struct jsonx_problems *problems, struct err *e)
{
    struct checked checked = {0};
    int rc = d->simulator ? check_spec(d, spec->json, NULL, true, &checked, e) : 0;
    if (rc >= 0) {
        take_problems(problems, &checked.errors);
    }
    checked_release(&checked);
    if (rc < 0) {
        return NULL;
    }
    json_t *warnings = json_array();
    warn_never_full(warnings, spec, samples);
    return json_pack("{s:[], s:o, s:s}", "nodes", "warnings", warnings, "starts", "now");
}

static int is_checkpoint(const struct dirent *d)
{
    const char *end = strrchr(d->d_name, '.');
    return end && strcmp(end, ".safetensors") == 0;
}

/* Checks that a program's `init` has a checkpoint. Whether that fits is not known, since the
 * network is not known before the program runs. */
static void check_checkpoints(const struct jobspec *spec, const char *path,
                              struct jsonx_problems *problems)
{
    struct dirent **names;
    int n = scandir(path, &names, is_checkpoint, NULL); /* -1 if the path is a file */
    if (n == 0) {
        jsonx_problem(problems, "/init", "cannot continue from '%s': it holds no checkpoint",
                      spec->init);
    }
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
}

/* The file or folder that `init` names. */
static bool find_init(const struct dryrun *d, const struct jobspec *spec, char path[PATH_MAX],
                      struct jsonx_problems *problems)
{
    struct err why = {0};
    if (planner_find_init(spec->init, d->roots, d->data_dir, path, &why) < 0) {
        jsonx_problem(problems, "/init", "%s", why.message);
        return false;
    }
    if (spec->program.given && spec->init_how.go_on) {
        check_checkpoints(spec, path, problems);
    }
    return true;
}

json_t *dryrun_plan(void *ctx, const json_t *json, bool programs, struct jsonx_problems *problems,
                    struct err *e)
{
    const struct dryrun *d = ctx;
    struct jobspec *spec = calloc(1, sizeof *spec);
    struct store *store = store_open(d->store_url, d->store_password, e);
    json_t *plan = NULL;
    struct checked checked = {0};
    char init[PATH_MAX];
    bool starts_from_file;
    if (!spec || !store || jobspec_parse(spec, json, problems) < 0) {
        goto out;
    }
    starts_from_file = spec->init[0] && find_init(d, spec, init, problems);
    if (spec->program.given) { /* its network and samples are unknown before it runs */
        const struct program_rights rights = {.allowed = d->allow_programs, .any = programs};
        programs_check(spec, d->data_dir, rights, problems);
        plan = place_job(d, store, spec, &checked, problems, e);
        goto out;
    }
    if (check_spec(d, json, starts_from_file ? init : NULL, false, &checked, e) < 0) {
        goto out;
    }
    take_problems(problems, &checked.errors);
    plan = spec->cluster ? virtual_plan(d, spec, checked.samples, problems, e)
                         : place_job(d, store, spec, &checked, problems, e);
    if (plan) {
        json_object_set_new(plan, "samples", json_integer((json_int_t)checked.samples));
        json_object_set_new(plan, "test_samples", json_integer((json_int_t)checked.test_samples));
    }
out:
    checked_release(&checked);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    store_close(store);
    return plan;
}

/* ---- programs -------------------------------------------------------------------------------- */

json_t *dryrun_programs(void *ctx, struct err *e)
{
    const struct dryrun *d = ctx;
    return programs_list(d->data_dir, e);
}

json_t *dryrun_program_add(void *ctx, FILE *archive, const char *who, bool *fresh,
                           struct jsonx_problems *problems, struct err *e)
{
    const struct dryrun *d = ctx;
    json_t *upload = uploads_add(d->data_dir, archive, who, fresh, problems, e),
           *program = upload ? programs_describe(upload) : NULL;
    json_decref(upload);
    return program;
}

int dryrun_program_delete(void *ctx, const char *digest, struct err *e)
{
    const struct dryrun *d = ctx;
    struct store *store = store_open(d->store_url, d->store_password, e);
    int rc = store ? uploads_delete(d->data_dir, store, digest, e) : -(int)e->code;
    store_close(store);
    return rc;
}

json_t *dryrun_disk(void *ctx)
{
    const struct dryrun *d = ctx;
    return retention_disk(d->retention);
}

void dryrun_quota(void *ctx, const char *owner, struct quota *out)
{
    const struct dryrun *d = ctx;
    quotas_find(d->quotas, owner, out);
}

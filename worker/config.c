/* The worker's configuration (see config.h). The plan comes from the coordinator through the store;
 * it is checked all the same, because a worker and a coordinator of different versions must fail
 * with a sentence and not with a crash.
 */
#include "worker/config.h"

#include <stdlib.h>
#include <string.h>

#include "job/assign.h"
#include "worker/data/dataset.h"

static const struct opt table[] = {
    {"job", "ID", OPT_STRING, NULL, 0, 0,
     "trains this job: its plan is read from the store (started by mpirun, one rank more than workers)"},
    {"attempt", "N", OPT_INT, "1", 1, 30000, "number of this launch"},
    {"store", "URL", OPT_STRING, NULL, 0, 0, "the store: redis://HOST:PORT or unix:PATH"},
    {"store-password", "TEXT", OPT_STRING, NULL, 0, 0,
     "its password (use the environment, EVENSTEP_STORE_PASSWORD)"},
    {"local", "SPEC", OPT_STRING, NULL, 0, 0,
     "trains this job spec without a store, rows to standard output as CSV"},
    {"check", "SPEC", OPT_STRING, NULL, 0, 0,
     "checks this job spec against the data sets, prints JSON"},
    {"init", "FILE", OPT_STRING, NULL, 0, 0,
     "with --check: the file that the spec's `init` is, checked too"},
    {"probe", "DEVICE", OPT_STRING, NULL, 0, 0,
     "prints as JSON what this device is (cpu:THREADS, cuda:INDEX, auto), or why it cannot be used"},
    {"datasets", "ROOTS", OPT_STRING, NULL, 0, 0,
     "prints the data sets beneath these folders as JSON"},
    {"cache", "FILE", OPT_STRING, NULL, 0, 0, "where --datasets keeps what it found out"},
    {"evaluate", "MODEL", OPT_STRING, NULL, 0, 0, "evaluates this safetensors file, prints JSON"},
    {"data-set", "FOLDER", OPT_STRING, NULL, 0, 0,
     "data set of --evaluate: a folder, a name beneath the roots, or glyphs (default: what it was trained on)"},
    {"format", "NAME", OPT_STRING, NULL, 0, 0, "format of --data-set (default: found out)"},
    {"spec", "FILE", OPT_STRING, NULL, 0, 0,
     "job spec with the model and data of --evaluate, for files that do not say them"},
    {"part", "NAME", OPT_STRING, "test", 0, 0, "part of --data-set: test or train"},
    {"batch", "N", OPT_INT, "100", 1, 65536, "samples at a time of --evaluate"},
    {"outputs", "FILE", OPT_STRING, NULL, 0, 0,
     "writes the network's outputs of --evaluate as .npy"},
    {"roots", "ROOTS", OPT_STRING, NULL, 0, 0,
     "folders of data sets, separated by colons (default: EVENSTEP_DATA)"},
    {"out", "DIR", OPT_STRING, NULL, 0, 0, "where --local puts checkpoints and artifacts"},
    {"device", "NAME", OPT_STRING, "cpu:1", 0, 0,
     "device of every worker of --local, and of --evaluate"},
    {"slowdown", "LIST", OPT_STRING, "1", 0, 0,
     "emulated slowdown of each worker of --local, separated by commas"},
    {"order", "FILE", OPT_STRING, NULL, 0, 0,
     "JSON array of ranks: the server of --local takes their gradients in this order (that of a virtual run gives its bits)"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {0},
};

int config_parse(struct worker_config *c, int argc, char **argv, struct err *e)
{
    memset(c, 0, sizeof(*c));
    int rc = opt_begin(table, "evenstep-worker --job ID --attempt N --store URL", argc, argv,
                       &c->options, e);
    if (rc != 0) {
        return rc;
    }
    const char *datasets = opt_string(c->options, "datasets"),
               *check = opt_string(c->options, "check");
    const char *local = opt_string(c->options, "local"), *fallback = getenv("EVENSTEP_DATA");
    c->job = opt_string(c->options, "job");
    c->attempt = (int)opt_int(c->options, "attempt");
    c->store_url = opt_string(c->options, "store");
    c->out = opt_string(c->options, "out");
    c->spec_file = check ? check : local;
    c->roots = datasets ? datasets : opt_string(c->options, "roots");
    c->roots = c->roots ? c->roots : fallback ? fallback : "data";
    c->mode = opt_string(c->options, "probe")      ? WORKER_PROBE
              : opt_string(c->options, "evaluate") ? WORKER_EVALUATE
              : datasets                           ? WORKER_DATASETS
              : check                              ? WORKER_CHECK
              : local                              ? WORKER_LOCAL
                                                   : WORKER_JOB;
    if (c->mode == WORKER_JOB && (!c->job || !c->store_url)) {
        return err_set(
            e, ERR_INVALID,
            "evenstep-worker needs --job and --store, or one of --local, --check, --probe, --datasets, --evaluate (see --help)");
    }
    return 0;
}

struct jobspec *config_load_spec(const char *path, struct jsonx_problems *problems, struct err *e)
{
    struct jobspec *spec = calloc(1, sizeof(*spec));
    json_t *j = spec ? jsonx_load(path, 4 << 20, e) : NULL;
    if (j && jobspec_parse(spec, j, problems) == 0) {
        json_decref(j);
        return spec;
    }
    if (j && problems->count > 0) {
        err_set(e, ERR_INVALID, "the job spec is not valid: %s %s", problems->items[0].pointer,
                problems->items[0].message);
    }
    json_decref(j);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    return NULL;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int plan_spec(struct worker_config *c, const json_t *plan, size_t workers, struct err *e)
{
    json_t *j = json_deep_copy(json_object_get(plan, "spec"));
    c->spec = calloc(1, sizeof(*c->spec));
    if (!c->spec || !j) {
        json_decref(j);
        return err_set(e, ERR_DATA, "the plan has no spec");
    }
    json_object_set_new(j, "workers",
                        json_integer((json_int_t)workers)); /* a restart may have fewer */
    int rc = jobspec_read(c->spec, j, e);
    json_decref(j);
    return rc < 0 ? err_prefix(e, "the plan's spec is not valid") : rc;
}

static void copy_text(char *out, size_t bytes, const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    snprintf(out, bytes, "%s", text ? text : "");
}

static void plan_nodes(struct worker_config *c, const json_t *workers)
{
    size_t i;
    json_t *w;
    json_array_foreach(workers, i, w) {
        struct worker_node *n = &c->nodes[i];
        copy_text(n->name, sizeof(n->name), w, "node");
        copy_text(n->host, sizeof(n->host), w, "host");
        copy_text(n->device, sizeof(n->device), w, "device");
        n->slowdown = json_number_value(json_object_get(w, "slowdown"));
        n->slowdown = n->slowdown > 1 ? n->slowdown : 1;
        n->tuning = json_incref(json_object_get(w, "tuning"));
    }
}

static int plan_sizes(struct worker_config *c, const json_t *plan, size_t workers, struct err *e)
{
    const json_t *first = json_object_get(plan, "first"), *sizes = json_object_get(first, "sizes"),
                 *speeds = json_object_get(plan, "speeds");
    int64_t sum = 0;
    c->first_version = (int)json_integer_value(json_object_get(first, "version"));
    for (size_t i = 0; i < workers; i++) {
        c->first_sizes[i] = (int)json_integer_value(json_array_get(sizes, i));
        double speed = json_number_value(json_array_get(speeds, i));
        c->speeds[i] = speed > 0 ? speed : 1;
        sum += c->first_sizes[i] > 0 ? c->first_sizes[i] : 0;
    }
    if (json_array_size(sizes) != workers || sum != c->spec->batching.global_batch) {
        return err_set(e, ERR_DATA, "the plan's minibatches do not sum to the global batch of %d",
                       c->spec->batching.global_batch);
    }
    return 0;
}

static char *dup_text(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text && *text ? strdup(text) : NULL;
}

/* data_roots: a colon-separated text, or an array of folders. */
static char *dup_roots(const json_t *j)
{
    const json_t *list = json_object_get(j, "data_roots");
    size_t i, n = 1;
    json_t *item;
    if (!json_is_array(list)) {
        return dup_text(j, "data_roots");
    }
    json_array_foreach(list, i, item) {
        n += json_string_length(item) + 1;
    }
    char *out = calloc(1, n), *p = out;
    json_array_foreach(list, i, item) {
        if (out && json_is_string(item)) {
            size_t length = json_string_length(item);
            *p = ':';
            p += p != out;
            memcpy(p, json_string_value(item), length);
            p += length;
        }
    }
    return out;
}

/* A host may keep programs elsewhere than the coordinator's does. Takes `planned` over. */
static char *find_program(const struct jobspec *spec, char *planned)
{
    const char *own = getenv("EVENSTEP_PROGRAMS");
    char *out = planned;
    if (planned && own && *own && asprintf(&out, "%s/%s", own, spec->program.name) >= 0) {
        free(planned);
    }
    return out;
}

int config_read_plan(struct worker_config *c, const json_t *plan, struct err *e)
{
    const json_t *workers = json_object_get(plan, "workers");
    size_t n = json_array_size(workers);
    if (n < 1 || n > SPEC_WORKERS) {
        return err_set(e, ERR_DATA, "the plan has %zu workers", n);
    }
    int rc = plan_spec(c, plan, n, e);
    if (rc < 0) {
        return rc;
    }
    int servers = (int)json_integer_value(json_object_get(plan, "servers"));
    c->servers = servers > 0 ? servers : 1;
    c->nodes = calloc(n, sizeof(*c->nodes));
    c->job_dir = dup_text(plan, "job_dir");
    c->init_path = dup_text(plan, "init_path");
    c->program_folder = find_program(c->spec, dup_text(plan, "program_folder"));
    const char *own =
        getenv("EVENSTEP_NODE_DATA"); /* an agent started us: this host has folders of its own */
    c->data_roots = own && *own ? strdup(own) : dup_roots(plan);
    const char *bytes = getenv("EVENSTEP_NODE_CACHE_BYTES");
    c->cache = getenv("EVENSTEP_NODE_CACHE");
    c->cache_bytes = bytes ? strtoll(bytes, NULL, 10) : 0;
    if (!c->data_roots) {
        c->data_roots = strdup(c->roots);
    }
    if (!c->nodes || !c->data_roots) {
        return err_set(e, ERR_MEMORY, "cannot hold the plan: memory ran out");
    }
    plan_nodes(c, workers);
    return plan_sizes(c, plan, n, e);
}

/* ---- without a store ------------------------------------------------------------------------- */

int config_size_batches(struct worker_config *c, struct err *e)
{
    const struct jobspec *spec = c->spec;
    int64_t sum = 0;
    for (int i = 0; i < spec->workers; i++) {
        sum += c->first_sizes[i];
    }
    if (spec->batching.global_batch == 0 || sum > 0) {
        return 0;
    }
    struct assignment *first = calloc(1, sizeof(*first));
    int rc = first ? assign_first(first, &spec->batching, spec->workers, NULL, 4, e)
                   : err_set(e, ERR_MEMORY, "cannot hold the plan: memory ran out");
    if (rc >= 0) {
        memcpy(c->first_sizes, first->sizes, sizeof(c->first_sizes));
    }
    free(first);
    return rc;
}

int config_make_local(struct worker_config *c, struct err *e)
{
    struct jsonx_problems problems = {0};
    c->spec = config_load_spec(c->spec_file, &problems, e);
    jsonx_problems_release(&problems);
    if (!c->spec) {
        return -ERR_INVALID;
    }
    int n = c->spec->workers;
    c->nodes = calloc((size_t)n, sizeof(*c->nodes));
    c->servers = c->spec->strategy.servers > 0 ? c->spec->strategy.servers : 1;
    c->data_roots = strdup(c->roots);
    c->job_dir = c->out ? strdup(c->out) : NULL;
    int rc = c->nodes && c->data_roots
                 ? config_size_batches(c, e)
                 : err_set(e, ERR_MEMORY, "cannot hold the plan: memory ran out");
    const char *factor = opt_string(c->options, "slowdown");
    for (int i = 0; rc >= 0 && i < n; i++) {
        struct worker_node *node = &c->nodes[i];
        char *end;
        double f = strtod(factor, &end);
        factor = *end == ',' ? end + 1 : factor; /* the last one holds for the rest */
        snprintf(node->name, sizeof(node->name), "local-%d", i + 1);
        snprintf(node->device, sizeof(node->device), "%s", opt_string(c->options, "device"));
        node->slowdown = f > 1 ? f : 1;
        c->speeds[i] = 1 / node->slowdown;
    }
    c->first_version = 1;
    if (rc >= 0 && opt_string(c->options, "order")) {
        c->order = jsonx_load(opt_string(c->options, "order"), 64 << 20, e);
        rc = json_is_array(c->order) ? 0
             : c->order              ? err_set(e, ERR_INVALID, "--order: '%s' is no array of ranks",
                                               opt_string(c->options, "order"))
                                     : -ERR_INVALID;
    }
    if (rc >= 0 && c->spec->init[0]) {
        char path[4096];
        rc = dataset_find(c->data_roots, c->spec->init, path, e);
        c->init_path = rc >= 0 ? strdup(path) : NULL;
    }
    return rc < 0 ? rc : 0;
}

void config_release(struct worker_config *c)
{
    for (int i = 0; c->nodes && i < c->spec->workers; i++) {
        json_decref(c->nodes[i].tuning);
    }
    if (c->spec) {
        jobspec_release(c->spec);
    }
    json_decref(c->order);
    free(c->spec);
    free(c->nodes);
    free(c->job_dir);
    free(c->init_path);
    free(c->program_folder);
    free(c->data_roots);
    opt_free(c->options);
}

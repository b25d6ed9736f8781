/* The worker's configuration (see config.h). The plan comes from the coordinator through the store.
 * It is checked all the same: a worker and a coordinator of different versions must fail with a
 * message, not with a crash.
 */
#include "worker/config.h"

#include <stdlib.h>
#include <string.h>

#include "common/manual.h"
#include "job/minibatch/assign.h"
#include "worker/data/dataset.h"

/* For a node without an agent; an agent has --data-limit. */

static const struct opt table[] = {
    {"job", "ID", OPT_STRING, NULL, 0, 0,
     "trains this job: its plan is read from the store (started by mpirun, one rank more than "
     "workers)"},
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
     "prints a description of this device as JSON ("
#include "job/node/device_forms.def"
     "auto), or why it cannot be used"},
    {"datasets", "ROOTS", OPT_STRING, NULL, 0, 0,
     "prints the data sets beneath these folders as JSON"},
    {"show", "PATH", OPT_STRING, NULL, 0, 0, "--datasets shows this one, with a few samples"},
    {"whole", NULL, OPT_FLAG, NULL, 0, 0, "--show reads all its samples, and refuses a faulty one"},
    {"cache", "FILE", OPT_STRING, NULL, 0, 0, "where --datasets keeps its results"},
    {"evaluate", "MODEL", OPT_STRING, NULL, 0, 0, "evaluates this safetensors file, prints JSON"},
    {"data-set", "FOLDER", OPT_STRING, NULL, 0, 0,
     "data set of --evaluate: a folder, a name beneath the roots, or glyphs (default: what it was "
     "trained on)"},
    {"format", "NAME", OPT_STRING, NULL, 0, 0, "format of --data-set (default: found out)"},
    {"spec", "FILE", OPT_STRING, NULL, 0, 0,
     "job spec with the model and data of --evaluate, for files that do not say them"},
    {"export-onnx", "MODEL", OPT_STRING, NULL, 0, 0, "writes this safetensors file as ONNX"},
    {"to", "FILE", OPT_STRING, NULL, 0, 0,
     "where --export-onnx writes (default: MODEL with .onnx in place of .safetensors)"},
    {"compare", "MODEL", OPT_STRING, NULL, 0, 0,
     "prints as JSON how far this safetensors file and that of --with are apart"},
    {"with", "MODEL", OPT_STRING, NULL, 0, 0, "the other one of --compare"},
    {"beside", "MODEL", OPT_STRING, NULL, 0, 0,
     "with --compare: trained as its file was, but for a rounding of the first parameters"},
    {"part", "NAME", OPT_STRING, "test", 0, 0, "part of --data-set: test or train"},
    {"batch", "N", OPT_INT, "100", 1, 65536, "samples at a time of --evaluate"},
    {"outputs", "FILE", OPT_STRING, NULL, 0, 0,
     "writes the network's outputs of --evaluate as .npy"},
    {"pictures", NULL, OPT_FLAG, NULL, 0, 0,
     "--evaluate shows the samples with the greatest loss as pictures"},
    {"roots", "ROOTS", OPT_STRING, NULL, 0, 0,
     "folders of data sets, separated by colons (default: EVENSTEP_DATA)"},
    {"out", "DIR", OPT_STRING, NULL, 0, 0, "where --local puts checkpoints and artifacts"},
    {"lines", "FILE", OPT_STRING, NULL, 0, 0,
     "where --local appends its lines (default: standard output, which mpirun cuts anywhere)"},
    {"device", "NAME", OPT_STRING, "cpu:1", 0, 0,
     "device of every worker of --local, and of --evaluate"},
    {"slowdown", "LIST", OPT_STRING, "1", 0, 0,
     "emulated slowdown of each worker of --local, separated by commas"},
    {"order", "FILE", OPT_STRING, NULL, 0, 0,
     "JSON array of ranks: the server of --local takes their gradients in this order (that of a "
     "virtual run gives its bits)"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    MANUAL_OPTION,
    {0},
};

static const struct manual manual = {
    .name = "evenstep-worker",
    .brief = "one rank of an Evenstep job, and tasks with models and data sets",
    .usage = "evenstep-worker --job ID --attempt N --store URL",
    .about =
        "The service starts it by mpirun, with --job, as one rank of a job's attempt. The other "
        "forms need no service: --local trains a job spec on this machine, --check says what is "
        "wrong with one, --datasets lists data sets, --probe says what a device is, --evaluate, "
        "--export-onnx and --compare take models' files. For these, evenstep evaluate, evenstep "
        "export and evenstep run --check are made for people.",
    .options = table,
    .statuses =
        (const struct manual_term[]){
            {"0", "it did what was asked; what --check found wrong stands in its answer"},
            {"1", "it cannot run, or the rank failed; the last line on stderr says why"},
            {0}},
    .variables =
        (const struct manual_term[]){
            {"EVENSTEP_DATA", "folders of data sets with colons between, unless --roots is given"},
            {0}},
    .examples =
        (const struct manual_term[]){
            {"evenstep-worker --local job.json --out result",
             "trains a job without a service, and prints a row for each step"},
            {"evenstep-worker --check job.json --roots data",
             "prints the mistakes of a job as JSON"},
            {"evenstep-worker --probe auto", "prints the fastest device of this machine"},
            {0}},
};

int config_parse(struct worker_config *c, int argc, char **argv, struct err *e)
{
    memset(c, 0, sizeof(*c));
    int rc = manual_begin(&manual, argc, argv, &c->options, e);
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
    c->lines = opt_string(c->options, "lines");
    c->spec_file = check ? check : local;
    c->roots = datasets ? datasets : opt_string(c->options, "roots");
    c->roots = c->roots ? c->roots : fallback ? fallback : "data";
    c->mode = opt_string(c->options, "probe")         ? WORKER_PROBE
              : opt_string(c->options, "evaluate")    ? WORKER_EVALUATE
              : opt_string(c->options, "export-onnx") ? WORKER_EXPORT
              : opt_string(c->options, "compare")     ? WORKER_COMPARE
              : datasets                              ? WORKER_DATASETS
              : check                                 ? WORKER_CHECK
              : local                                 ? WORKER_LOCAL
                                                      : WORKER_JOB;
    if (c->mode == WORKER_JOB && (!c->job || !c->store_url)) {
        return err_set(
            e, ERR_INVALID,
            "evenstep-worker needs --job and --store, or one of --local, --check, --probe, "
            "--datasets, --evaluate, --export-onnx, --compare (see --help)");
    }
    if (c->mode == WORKER_COMPARE && !opt_string(c->options, "with")) {
        return err_set(e, ERR_INVALID,
                       "--compare needs --with, the model that it is compared with");
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
        char first[JSONX_FIRST];
        err_set(e, ERR_INVALID, "the job spec is not valid: %s",
                jsonx_problems_first(problems, first));
    }
    json_decref(j);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    return NULL;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int plan_spec(struct worker_config *c, struct err *e)
{
    json_t *j = jobspec_resized(c->plan.spec, c->plan.n_workers); /* a restart may have fewer */
    c->spec = calloc(1, sizeof(*c->spec));
    if (!c->spec || !j) {
        json_decref(j);
        return err_set(e, ERR_MEMORY, "cannot hold the plan: memory ran out");
    }
    int rc = jobspec_read(c->spec, j, e);
    json_decref(j);
    return rc < 0 ? err_prefix(e, "the plan's spec is not valid") : rc;
}

static int check_sizes(const struct worker_config *c, struct err *e)
{
    int64_t sum = 0;
    for (int i = 0; i < c->plan.n_workers; i++) {
        sum += c->plan.first_sizes[i];
    }
    return sum == c->spec->batching.global_batch
               ? 0
               : err_set(e, ERR_DATA, "the plan's minibatches do not sum to the global batch of %d",
                         c->spec->batching.global_batch);
}

/* Takes settings of this host from the agent that started us. */
static int take_host(struct worker_config *c, struct err *e)
{
    const char *own = getenv("EVENSTEP_NODE_DATA"), *bytes = getenv("EVENSTEP_NODE_CACHE_BYTES"),
               *roots = own && *own        ? own
                        : c->plan.roots[0] ? NULL
                                           : c->roots;
    const char *programs = getenv("EVENSTEP_PROGRAMS");
    if (c->plan.program_folder[0] && programs && *programs) {
        snprintf(c->plan.program_folder, sizeof(c->plan.program_folder), "%s/%s", programs,
                 c->spec->program.name);
    }
    c->cache = getenv("EVENSTEP_NODE_CACHE");
    c->cache_bytes = bytes ? strtoll(bytes, NULL, 10) : 0;
    c->unpacked = c->cache
                      ? (struct received){c->cache, c->cache_bytes}
                      : (struct received){getenv("EVENSTEP_NODE_UNPACKED"), WORKER_UNPACKED_BYTES};
    if (roots && (size_t)snprintf(c->plan.roots, sizeof(c->plan.roots), "%s", roots) >=
                     sizeof(c->plan.roots)) {
        return err_set(e, ERR_INVALID, "the folders of data sets '%.100s…' are too many", roots);
    }
    return 0;
}

int config_read_plan(struct worker_config *c, const json_t *j, struct err *e)
{
    struct sender ours = {.attempt = c->attempt, .rank = COORDINATOR};
    snprintf(ours.job, sizeof(ours.job), "%s", c->job);
    int rc = plan_read(&c->plan, j, e);
    if (rc < 0) {
        return rc;
    }
    if (!sender_is(&c->plan.from, &ours)) {
        return err_set(e, ERR_CONFLICT,
                       "the plan is of attempt %d of job '%s', this rank of attempt %d of job '%s'",
                       c->plan.from.attempt, c->plan.from.job, ours.attempt, ours.job);
    }
    if (c->plan.n_workers < 1) {
        return err_set(e, ERR_DATA, "the plan is of a virtual attempt, which has no ranks");
    }
    if ((rc = plan_spec(c, e)) < 0 || (rc = take_host(c, e)) < 0) {
        return rc;
    }
    return check_sizes(c, e);
}

int config_size_batches(struct worker_config *c, struct err *e)
{
    const struct jobspec *spec = c->spec;
    int64_t sum = 0;
    for (int i = 0; i < spec->workers; i++) {
        sum += c->plan.first_sizes[i];
    }
    if (spec->batching.global_batch == 0 || sum > 0) {
        return 0;
    }
    struct assignment *first = calloc(1, sizeof(*first));
    int rc = first ? assign_first(first, &spec->batching, spec->workers, NULL, 4, e)
                   : err_set(e, ERR_MEMORY, "cannot hold the plan: memory ran out");
    if (rc >= 0) {
        memcpy(c->plan.first_sizes, first->sizes, sizeof(c->plan.first_sizes));
    }
    free(first);
    return rc;
}

/* ---- without a store ------------------------------------------------------------------------- */

/* Makes one node per worker; all have the device that was asked for. */
static void local_workers(struct worker_config *c)
{
    const char *factor = opt_string(c->options, "slowdown");
    for (int i = 0; i < c->plan.n_workers; i++) {
        struct plan_worker *node = &c->plan.workers[i];
        char *end;
        double f = strtod(factor, &end);
        factor = *end == ',' ? end + 1 : factor; /* the last factor holds for the rest */
        snprintf(node->node, sizeof(node->node), "local-%d", i + 1);
        snprintf(node->device, sizeof(node->device), "%s", opt_string(c->options, "device"));
        node->slowdown = f > 1 ? f : 1;
        c->plan.speeds[i] = 1 / node->slowdown;
    }
    c->plan.first_version = 1;
}

static int local_order(struct worker_config *c, struct err *e)
{
    const char *file = opt_string(c->options, "order");
    c->order = file ? jsonx_load(file, 64 << 20, e) : NULL;
    if (!file || json_is_array(c->order)) {
        return 0;
    }
    return c->order ? err_set(e, ERR_INVALID, "--order: '%s' is not an array of ranks", file)
                    : -(int)e->code;
}

static int local_plan(struct worker_config *c, struct err *e)
{
    struct plan *p = &c->plan;
    p->workers = calloc((size_t)c->spec->workers, sizeof(*p->workers));
    p->n_workers = p->workers ? c->spec->workers : 0;
    p->servers = c->spec->strategy.servers > 0 ? c->spec->strategy.servers : 1;
    snprintf(p->roots, sizeof(p->roots), "%s", c->roots);
    snprintf(p->job_dir, sizeof(p->job_dir), "%s", c->out ? c->out : "");
    int rc = p->workers ? config_size_batches(c, e)
                        : err_set(e, ERR_MEMORY, "cannot hold the plan: memory ran out");
    if (rc >= 0) {
        local_workers(c);
    }
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
    int rc = local_plan(c, e);
    if (rc < 0 || (rc = local_order(c, e)) < 0) {
        return rc;
    }
    return c->spec->init[0] ? dataset_find(c->plan.roots, c->spec->init, c->plan.init_path, e) : 0;
}

void config_release(struct worker_config *c)
{
    plan_release(&c->plan);
    if (c->spec) {
        jobspec_release(c->spec);
    }
    json_decref(c->order);
    free(c->spec);
    opt_free(c->options);
}

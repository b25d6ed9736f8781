/* evenstep-simulate: a job on a virtual cluster. The trainer, strategies, server rules and balancer
 * are the same code that runs over MPI. Only the transport differs (comm_sim.c), and time is
 * virtual. With real gradients, the same seed gives the same bits.
 *
 *   evenstep-simulate --job job.json --cluster cluster.json --out DIR [--seed N] [--timing-only]
 *   evenstep-simulate --job job.json --check
 *
 * --check prints as JSON what is wrong with the job and what memory it needs, for the coordinator.
 * With --timing-only no number is computed and no data are read but their counts (timing.c);
 * summary.json then has the times and the staleness of the full run, and there are no model and no
 * history.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/manual.h"
#include "common/process/proc.h"
#include "common/text/text.h"
#include "job/spec/cluster.h"
#include "job/documents/results/checked.h"
#include "simulator/comm_sim.h"
#include "simulator/memory.h"
#include "simulator/pool.h"
#include "simulator/report.h"
#include "simulator/timing.h"
#include "worker/training/trainer.h"

static const struct opt options[] = {
    {"job", "FILE", OPT_STRING, NULL, 0, 0,
     "the job spec; its `cluster` is used if --cluster is not given"},
    {"cluster", "FILE", OPT_STRING, NULL, 0, 0, "nodes and links"},
    {"out", "DIR", OPT_STRING, NULL, 0, 0, "where summary.json, history and model.safetensors go"},
    {"seed", "N", OPT_INT, NULL, 0, 9007199254740992.0,
     "the cluster's seed, in place of the file's"},
    {"samples", "N", OPT_INT, "0", 0, 1e15,
     "with --timing-only: samples of an epoch, so that the data set need not be there"},
    {"threads", "N", OPT_INT, "0", 0, 1024,
     "gradients of virtual nodes that are computed at a time (0: one per core); changes no result"},
    {"timing-only", NULL, OPT_FLAG, NULL, 0, 0,
     "times and staleness alone: no gradients, no model, no history"},
    {"data", "DIRS", OPT_STRING, NULL, 0, 0,
     "where data sets are looked up (also EVENSTEP_DATA; default: the current folder)"},
    {"check", NULL, OPT_FLAG, NULL, 0, 0,
     "runs nothing: prints mistakes and the memory needed as JSON"},
    {"memory", "BYTES", OPT_REAL, "0", 0, 1e18, "memory that may be used (0: all that is free)"},
    {"log-level", "LEVEL", OPT_STRING, "warn", 0, 0, "debug, info, warn or error"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    MANUAL_OPTION,
    {0}};

static const struct manual manual = {
    .name = "evenstep-simulate",
    .brief = "an Evenstep job on a virtual cluster",
    .usage = "evenstep-simulate --job FILE [--cluster FILE] --out DIR [--seed N] [--timing-only]",
    .about =
        "Trains a job on virtual nodes in one process: real gradients, the trainer and strategies "
        "of a real job, and a virtual clock. The same job, cluster and seed leave the same bytes "
        "in DIR on every run: summary.json, history and model.safetensors. The service starts it "
        "for jobs whose spec has a cluster. With --check it runs nothing and needs no --out.",
    .options = options,
    .statuses =
        (const struct manual_term[]){{"0", "the run has ended; with --check: it was checked"},
                                     {"1", "it failed; the last line on stderr says why"},
                                     {"2", "wrong usage"},
                                     {0}},
    .examples =
        (const struct manual_term[]){
            {"evenstep-simulate --job job.json --cluster cluster.json --out run",
             "runs a job on the cluster of a file"},
            {"evenstep-simulate --job job.json --out run --timing-only",
             "only times and staleness, on the cluster that the job's spec has"},
            {0}},
};

struct simulation {
    struct jobspec spec;
    struct cluster cluster;
    struct dataset data;
    struct device *dev;
    struct world *world;
    struct report *report;
    struct virtual_rank *ranks;
    char init_path[4096];
    const char *roots, *out;
    bool timing_only;
};

struct virtual_rank {
    struct simulation *sim;
    int rank;
    struct comm comm;
    struct trainer_env env;
    int rc;
    struct err err;
};

static void print_problems(const char *what, const struct jsonx_problems *p)
{
    for (int i = 0; i < p->count; i++) {
        fprintf(stderr, "evenstep-simulate: %s: ", what);
        text_print(stderr, p->items[i].pointer[0] ? p->items[i].pointer : "/");
        fprintf(stderr, ": ");
        text_print(stderr, p->items[i].message);
        fputc('\n', stderr);
    }
}

/* The cluster's groups decide. A group_size must agree with them. */
static int check_groups(struct simulation *s)
{
    int size = s->spec.strategy.group_size, members[CLUSTER_NODES] = {0}, rc = 0;
    for (int i = 0; i < s->cluster.n_nodes && s->cluster.groups && size > 0; i++) {
        members[s->cluster.nodes[i].group]++;
    }
    for (int g = 0; g < CLUSTER_NODES && rc == 0; g++) {
        if (members[g] > 0 && members[g] != size) {
            fprintf(
                stderr,
                "evenstep-simulate: job: /strategy/group_size: 'group_size' is %d, but group %d of "
                "the cluster has %d nodes\n",
                size, g, members[g]);
            rc = -ERR_INVALID;
        }
    }
    s->spec.strategy.group_size = s->cluster.groups ? 0 : size;
    return rc;
}

/* Reads both files; every mistake of both is printed before it gives up. */
static int read_inputs(struct simulation *s, const struct opt_values *v, struct err *e)
{
    struct jsonx_problems of_job = {0}, of_cluster = {0};
    json_t *job = jsonx_load(opt_string(v, "job"), 4 << 20, e), *file = NULL;
    if (!job) {
        return -(int)e->code;
    }
    if (opt_string(v, "cluster") && !(file = jsonx_load(opt_string(v, "cluster"), 64 << 20, e))) {
        json_decref(job);
        return -(int)e->code;
    }
    const json_t *cluster = file ? file : json_object_get(job, "cluster");
    int rc = jobspec_parse(&s->spec, job, &of_job), parsed = 0;
    print_problems("job", &of_job);
    if (cluster) {
        parsed = cluster_parse(&s->cluster, cluster, "", &of_cluster);
        if (file) { /* else they are the job's */
            print_problems("cluster", &of_cluster);
        }
    } else {
        fprintf(
            stderr,
            "evenstep-simulate: there is no cluster: give --cluster FILE, or a `cluster` in the "
            "job\n");
        rc = -ERR_INVALID;
    }
    if (file && parsed == 0 && s->spec.workers > s->cluster.n_nodes) {
        fprintf(stderr,
                "evenstep-simulate: job: /workers: the job has %d workers, the cluster %d nodes\n",
                s->spec.workers, s->cluster.n_nodes);
        rc = -ERR_INVALID;
    }
    bool good = rc >= 0 && parsed >= 0 && check_groups(s) >= 0;
    if (opt_string(v, "seed")) {
        s->cluster.seed = (uint64_t)opt_int(v, "seed");
    }
    s->spec.checkpoint_every_seconds = 0; /* virtual seconds: no run would start from such
                                             checkpoints */
    jsonx_problems_release(&of_job);
    jsonx_problems_release(&of_cluster);
    json_decref(job);
    json_decref(file);
    return good ? 0 : err_set(e, ERR_INVALID, "the job cannot run as it is");
}

/* `init` is looked up under EVENSTEP_DATA and in the current folder. */
static int find_init(struct simulation *s, struct err *e)
{
    if (!s->spec.init[0] || s->timing_only) {
        return 0;
    }
    if (dataset_find(s->roots, s->spec.init, s->init_path, e) < 0 &&
        dataset_find(".", s->spec.init, s->init_path, e) < 0) {
        return err_prefix(e, "cannot find `init`");
    }
    return 0;
}

static void run_rank(void *arg)
{
    struct virtual_rank *r = arg;
    bool worker = r->rank < r->sim->spec.workers;
    if (r->sim->timing_only) {
        r->rc = worker ? timing_run(&r->env, &r->err) : timing_serve(&r->env, &r->err);
    } else {
        r->rc = worker ? trainer_run(&r->env, &r->err) : keeper_run(&r->env, &r->err);
    }
}

static void step_begin(void *ctx)
{
    struct virtual_rank *r = ctx;
    world_step_begin(r->sim->world, r->rank);
}

static int set_rank(struct simulation *s, int rank, struct err *e)
{
    struct virtual_rank *r = &s->ranks[rank];
    const struct jobspec *spec = &s->spec;
    r->sim = s;
    r->rank = rank;
    int rc = comm_init(&r->comm, world_transport(s->world, rank), spec->workers,
                       spec->strategy.servers, e);
    if (rc < 0) {
        return rc;
    }
    r->comm.deadline = 0;
    if (s->cluster.groups) {
        int groups[SPEC_WORKERS];
        for (int i = 0; i < spec->workers; i++) {
            groups[i] = s->cluster.nodes[i].group;
        }
        rc = comm_set_groups(&r->comm, groups, e);
    }
    r->env = (struct trainer_env){.spec = spec,
                                  .data = &s->data,
                                  .dev = rank < spec->workers ? s->dev : NULL,
                                  .comm = &r->comm,
                                  .telemetry = report_telemetry(s->report, rank),
                                  .virtual_time = true,
                                  .job_dir = s->out,
                                  .init_path = s->init_path[0] ? s->init_path : NULL,
                                  .step_begin = step_begin,
                                  .step_ctx = r};
    r->env.first_version = report_sizes(s->report, r->env.first_sizes);
    for (int i = 0; i < spec->workers; i++) {
        const struct virtual_node *n = &s->cluster.nodes[i];
        double t =
            n->fixed_seconds + n->seconds_per_sample * spec->batching.global_batch / spec->workers;
        r->env.speeds[i] = t > 0 ? 1 / t : 1;
    }
    if (rc < 0) {
        return rc;
    }
    return world_set(s->world, rank, run_rank, r, e);
}

/* The first failure that is not "another rank failed" is the cause. */
static int first_failure(const struct simulation *s, int ranks, struct err *e)
{
    int found = -1;
    for (int i = 0; i < ranks; i++) {
        if (s->ranks[i].rc < 0 && (found < 0 || (s->ranks[found].err.code == ERR_PEER &&
                                                 s->ranks[i].err.code != ERR_PEER))) {
            found = i;
        }
    }
    if (found < 0) {
        return 0;
    }
    *e = s->ranks[found].err;
    return err_prefix(e, "rank %d", found);
}

/* Empties the folder. A run would otherwise continue an earlier one's history and checkpoints.
 */
static int empty_out(const struct simulation *s, struct err *e)
{
    static const char *const left[] = {"history", "checkpoints", "artifacts"};
    char path[4200];
    snprintf(path, sizeof path, "%s/history/meta.json", s->out);
    bool ran_here = access(path, F_OK) == 0;
    int rc = 0;
    for (int i = 0; ran_here && i < 3 && rc >= 0; i++) {
        snprintf(path, sizeof path, "%s/%s", s->out, left[i]);
        rc = access(path, F_OK) == 0 ? proc_remove_tree(path, e) : 0;
    }
    if (rc < 0) {
        return rc;
    }
    return proc_mkdirs(s->out, 0755, e);
}

static int publish_model(const struct simulation *s, struct err *e)
{
    char from[4200], to[4200];
    snprintf(from, sizeof from, "%s/artifacts/model.safetensors", s->out);
    snprintf(to, sizeof to, "%s/model.safetensors", s->out);
    unlink(to);
    return link(from, to) == 0 || rename(from, to) == 0
               ? 0
               : err_errno(e, ERR_IO, "cannot put the model at '%s'", to);
}

/* Compares the memory that the run will need with what is there, before the data are read or a node
 * is made. A timing-only run needs almost nothing: its need is reported and not compared. */
static int check_memory(struct simulation *s, const struct opt_values *v, struct memory_need *need,
                        struct err *e)
{
    struct dataset told = {0};
    struct err ignored;
    struct assignment *first = calloc(1, sizeof *first);
    bool known = s->dev && dataset_peek(&told, &s->spec.data, s->roots, &ignored) >=
                               0; /* if this fails, opening it will say why */
    double there = !s->dev                     ? INFINITY
                   : opt_real(v, "memory") > 0 ? opt_real(v, "memory")
                                               : (double)s->dev->ops->memory_bytes(s->dev);
    int rc = first ? assign_first(first, &s->spec.batching, s->spec.workers, NULL, 4, e)
                   : err_set(e, ERR_MEMORY, "cannot count memory: it ran out");
    for (int i = 0; known && rc >= 0 && i < s->spec.workers; i++) {
        first->sizes[i] = assign_slice(&s->spec, first->sizes[i], told.train.samples);
    }
    if (rc >= 0) {
        memory_count(need, &s->spec, first->sizes, known ? &told : NULL,
                     s->dev ? pool_threads(s->dev) : 1);
        rc = memory_check(need, &s->spec, there, e);
    }
    if (known) {
        dataset_release(&told);
    }
    free(first);
    return rc;
}

/* --check: mistakes that only this program can find, as JSON with their pointers. */
static int check(struct simulation *s, const struct opt_values *v, struct err *e)
{
    struct memory_need need = {0};
    struct err why = {0};
    struct checked out = {.is_virtual = true, .blocks = json_object()};
    if (check_memory(s, v, &need, &why) < 0) {
        jsonx_problem(&out.errors, "/cluster", "%s", why.message);
    }
    for (int i = 0; i < need.n_rows; i++) {
        json_object_set_new(out.blocks, need.rows[i].name,
                            json_integer((json_int_t)need.rows[i].bytes));
    }
    out.process_bytes = (int64_t)need.bytes;
    out.node_bytes = (int64_t)need.node_bytes;
    json_t *j = checked_json(&out);
    char *text = jsonx_dump(j, true, NULL);
    int rc = text && puts(text) >= 0 ? 0 : err_set(e, ERR_IO, "cannot print the answer");
    free(text);
    json_decref(j);
    checked_release(&out);
    return rc;
}

static int open_data(struct simulation *s, const struct opt_values *v, struct err *e)
{
    if (!s->timing_only) {
        return dataset_open(&s->data, &s->spec.data, s->spec.seed, s->roots, e);
    }
    s->data.train.samples = opt_int(v, "samples");
    return s->data.train.samples > 0 ? 0 : dataset_peek(&s->data, &s->spec.data, s->roots, e);
}

/* Makes the world with its ranks, none of which has begun. */
static int make_ranks(struct simulation *s, double rank_bytes, struct err *e)
{
    int servers = s->spec.strategy.servers, ranks = s->spec.workers + servers, rc = 0;
    if (!(s->world = world_new(&s->cluster, s->spec.workers, servers, e)) ||
        !(s->report = report_new(&s->spec, &s->cluster, s->world, s->out, s->data.train.samples,
                                 !s->timing_only, e))) {
        return -(int)e->code;
    }
    if (!(s->ranks = calloc((size_t)ranks, sizeof *s->ranks))) {
        return err_set(e, ERR_MEMORY, "cannot make %d ranks: memory ran out", ranks);
    }
    report_memory(s->report, rank_bytes);
    for (int i = 0; i < ranks && rc >= 0; i++) {
        rc = set_rank(s, i, e);
    }
    return rc;
}

static int run_ranks(struct simulation *s, struct err *e)
{
    int rc;
    double begun = clock_now();
    int ran = world_run(s->world, e);
    double took = clock_now() - begun;
    log_info("simulator", "ran", "events=%lld seconds=%.3f events_per_second=%.0f",
             (long long)world_events(s->world), took,
             took > 0 ? (double)world_events(s->world) / took : 0);
    if ((rc = first_failure(s, s->spec.workers + s->spec.strategy.servers, e)) < 0 ||
        (rc = ran) < 0) {
        report_failure(s->report, e);
        return rc;
    }
    if ((rc = report_write(s->report, e)) < 0) {
        return rc;
    }
    return s->timing_only ? 0 : publish_model(s, e);
}

static int simulate(struct simulation *s, const struct opt_values *v, struct err *e)
{
    struct memory_need need;
    int rc = read_inputs(s, v, e);
    if (rc < 0) {
        return rc;
    }
    if (!s->timing_only && !(s->dev = pool_open((int)opt_int(v, "threads"), e))) {
        return -(int)e->code;
    }
    if (opt_flag(v, "check")) {
        return check(s, v, e);
    }
    if ((rc = find_init(s, e)) < 0 || (rc = check_memory(s, v, &need, e)) < 0 ||
        (rc = empty_out(s, e)) < 0 || (rc = open_data(s, v, e)) < 0 ||
        (rc = make_ranks(s, need.rank_bytes, e)) < 0) {
        return rc;
    }
    return run_ranks(s, e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct opt_values *v;
    if (manual_begin(&manual, argc - 1, argv + 1, &v, &e) == OPT_HELPED) {
        return 0;
    }
    enum log_level level;
    if (v && log_level_of(opt_string(v, "log-level"), &level, &e) < 0) {
        opt_free(v);
        v = NULL;
    }
    if (!v || !opt_string(v, "job") || (!opt_string(v, "out") && !opt_flag(v, "check"))) {
        fprintf(stderr, "evenstep-simulate: ");
        text_print(stderr, v ? "--job and --out are needed" : e.message);
        fprintf(stderr, "\nusage: %s\n", manual.usage);
        opt_free(v);
        return 2;
    }
    log_set_level(level);
    struct simulation *s = calloc(1, sizeof *s);
    BUG_ON(!s);
    s->out = opt_string(v, "out");
    s->timing_only = opt_flag(v, "timing-only") && !opt_flag(v, "check");
    s->roots = opt_string(v, "data") ? opt_string(v, "data") : ".";
    int rc = simulate(s, v, &e);
    if (rc < 0) {
        fprintf(stderr, "evenstep-simulate: ");
        text_print(stderr, e.message);
        fprintf(stderr, "%s%s\n", e.hint[0] ? "; " : "", e.hint);
    }
    report_free(s->report);
    for (int i = 0; s->ranks && i < s->spec.workers + s->spec.strategy.servers; i++) {
        comm_release(&s->ranks[i].comm);
    }
    free(s->ranks);
    world_free(s->world);
    dev_close(s->dev);
    dataset_release(&s->data);
    jobspec_release(&s->spec);
    free(s);
    opt_free(v);
    return rc < 0 ? 1 : 0;
}

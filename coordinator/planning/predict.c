/* Predictions: the simulator, timing only, on virtual nodes that have the measured profiles of the
 * nodes which the job would get.
 *
 *   nodes of the placement ─► profiles a + k*b ─► cluster file ─┐
 *   the job, its minibatches from these profiles ───────────────┴─► evenstep-simulate
 *                         --timing-only, for each strategy SEEDS times ─► a row each
 *
 * A node's steps vary as they did when it was measured, which costs the strategies that wait for
 * the slowest more than others. A row has the median of its runs, and the least and greatest step.
 *
 * The answer says that it is approximate: profiles hold computing alone, so links are those of
 * ranks on one host, and a run ends after some hundred steps. A job with a `cluster` of its own
 * is predicted on that. Minibatches are those that balancing would end with: a run is too short to
 * find them, and would show equal ones, which hold up strategies with a barrier more than others.
 * Each call has its own processes, a folder of its own, and a limit in time.
 */
#include "coordinator/planning/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/proc.h"
#include "coordinator/planning/dryrun.h"
#include "coordinator/planning/profiles.h"
#include "job/minibatch/assign.h"
#include "job/spec/cluster.h"
#include "job/documents/summary.h"

enum { EVENTS = 250000, STEPS_LEAST = 20, STEPS_MOST = 480, SEEDS = 3 };
static const double most_jitter = 0.33; /* that a cluster may have */
static const double limit_seconds = 3;
/* of ranks on one host through shared memory (PLATFORM.md): a message's start, bytes a second of
 * one copy */
static const double link_latency = 5e-5, link_bandwidth = 1.3e9;

struct prediction {
    const struct dryrun *d;
    const struct jobspec *spec;
    int workers; /* the spec's; of an elastic job those that it would get now */
    char dir[64];
    json_t *cluster; /* owned */
    json_t *sizes;   /* first minibatches by rank, or NULL: the job's own policy decides; owned */
    int64_t epoch_samples;
};

static int write_json(const char *dir, const char *name, const json_t *j, struct err *e)
{
    char path[128];
    size_t n;
    char *text = jsonx_dump(j, false, &n);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = text ? proc_write_file(path, text, n, 0600, e)
                  : err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    free(text);
    return rc;
}

/* How much the steps of a node vary, as a share of one of its usual steps. */
static double jitter_of(const struct profile *p)
{
    int batch = p->weight > 0 ? (int)(p->sb / p->weight + 0.5) : 0;
    double likely = profile_seconds(p, batch), jitter = likely > 0 ? p->deviation / likely : 0;
    return jitter < most_jitter ? jitter : most_jitter;
}

static json_t *node_of(const char *name, double fixed, double per_sample, double jitter)
{
    return json_pack("{s:s, s:f, s:f, s:f}", "name", name, "fixed_seconds", fixed,
                     "seconds_per_sample", per_sample, "jitter", jitter);
}

/* The placement's nodes as virtual ones; NULL with the name of one that has no profile. */
static json_t *cluster_of(const struct placement *p, struct profile *const *profiles,
                          const char **unmeasured)
{
    json_t *nodes = json_array(), *link = json_pack("{s:f, s:f}", "latency_seconds", link_latency,
                                                    "bytes_per_second", link_bandwidth);
    for (int i = 0; i < p->count; i++) {
        if (!profiles[i] || profiles[i]->count == 0) {
            *unmeasured = p->nodes[i].name;
            json_decref(nodes);
            json_decref(link);
            return NULL;
        }
        json_array_append_new(nodes, node_of(p->nodes[i].name, profiles[i]->a, profiles[i]->k,
                                             jitter_of(profiles[i])));
    }
    return json_pack("{s:o, s:O, s:o}", "nodes", nodes, "links", link, "server", link);
}

/* The first minibatches that these profiles give, as p->sizes. */
static int size_minibatches(struct prediction *p, int workers,
                            const struct profile *const *profiles, struct err *e)
{
    struct assignment *first = calloc(1, sizeof *first);
    int rc = first ? assign_first(first, &p->spec->batching, workers, profiles, 4, e)
                   : err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    if (rc >= 0) {
        p->sizes = json_array();
        for (int i = 0; i < workers; i++) {
            json_array_append_new(p->sizes, json_integer(first->sizes[i]));
        }
    }
    free(first);
    return rc;
}

/* The minibatches that balancing finds on a virtual cluster. */
static int size_virtual(struct prediction *p, const struct cluster *c, struct err *e)
{
    int workers = p->workers, rc;
    struct profile *profiles = calloc((size_t)workers, sizeof *profiles);
    const struct profile **each = calloc((size_t)workers, sizeof *each);
    if (profiles && each) {
        for (int i = 0; i < workers; i++) {
            profiles[i] = (struct profile){.a = c->nodes[i].fixed_seconds,
                                           .k = c->nodes[i].seconds_per_sample,
                                           .count = 1,
                                           .known = true};
            each[i] = &profiles[i];
        }
        rc = size_minibatches(p, workers, each, e);
    } else {
        rc = err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    }
    free(each);
    free(profiles);
    return rc;
}

/* The job's own cluster, with each node by its own name. */
static int take_cluster(struct prediction *p, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct cluster *c = calloc(1, sizeof *c);
    int rc = 0;
    if (!c) {
        return err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    }
    p->cluster = json_copy(p->spec->cluster);
    if (cluster_parse(c, p->cluster, "/cluster", &problems) >= 0) {
        json_t *nodes = json_array();
        for (int i = 0; i < c->n_nodes; i++) {
            const struct virtual_node *n = &c->nodes[i];
            json_array_append_new(
                nodes, node_of(n->name, n->fixed_seconds, n->seconds_per_sample, n->jitter));
        }
        json_object_set_new(p->cluster, "nodes", nodes);
        rc = p->spec->batching.policy == BATCH_DYNAMIC ? size_virtual(p, c, e) : 0;
    }
    free(c);
    jsonx_problems_release(&problems);
    return rc;
}

/* The nodes that the job would get if all were free, and its minibatches on them. 0, or 1 with
 * `reason` if nothing is known of them. */
static int place_job(struct prediction *p, struct store *store, char reason[200], struct err *e)
{
    json_t *nodes = store_nodes(store, e);
    struct placement_ask ask = {.nodes = nodes,
                                .local_host = p->d->local_host,
                                .spec = p->spec,
                                .attempt = 1,
                                .ignore_claims = true};
    struct placement found = {0};
    const char *unmeasured = NULL;
    int rc = nodes ? 0 : -(int)e->code;
    if (nodes && !placement_find(&found, &ask)) {
        snprintf(reason, 200, "there are not enough nodes: %s", found.waiting);
        rc = 1;
    } else if (nodes) {
        struct profile **profiles = profiles_all(store, p->spec, &found);
        p->workers = found.count;
        p->cluster = profiles ? cluster_of(&found, profiles, &unmeasured) : NULL;
        if (p->cluster) {
            rc = size_minibatches(p, found.count, (const struct profile *const *)profiles, e);
        } else if (unmeasured) {
            snprintf(reason, 200, "node '%.60s' was not measured on this network yet", unmeasured);
            rc = 1;
        } else {
            rc = err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
        }
        profiles_free(profiles, found.count);
    }
    placement_release(&found);
    json_decref(nodes);
    return rc;
}

/* The job as it is simulated: this strategy, one epoch of `samples`. */
static json_t *job_of(const struct prediction *p, const char *strategy, bool chosen)
{
    json_t *job = json_deep_copy(p->spec->json);
    static const char *const left_out[] = {"cluster",  "init",       "target", "nodes",
                                           "evaluate", "checkpoint", "elastic"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        json_object_del(job, left_out[i]);
    }
    if (!chosen) { /* what every strategy takes */
        json_object_set_new(job, "strategy", json_pack("{s:s}", "type", strategy));
        json_object_set_new(job, "optimizer", json_pack("{s:s}", "type", "sgd"));
    }
    if (p->sizes) {
        json_object_set_new(job, "workers", json_integer(p->workers));
        json_object_set_new(job, "batching",
                            json_pack("{s:s, s:i, s:O}", "policy", "static", "global_batch",
                                      p->spec->batching.global_batch, "sizes", p->sizes));
    }
    json_object_set_new(job, "epochs", json_integer(1));
    json_object_set_new(job, "evaluate", json_pack("{s:i}", "every_epochs", 1000));
    return job;
}

/* Samples that make about EVENTS events: a push and its answer are about 8, a ring of W about 8 W
 * for each rank. With 16 nodes and slow links the length of a round settles within some hundred
 * steps; a run of 20 shows half of the speed. */
static int64_t samples_of(const struct prediction *p, bool server)
{
    int64_t W = p->workers, per_step = server ? 8 * W : 8 * W * (W < 16 ? W : 16),
            steps = EVENTS / per_step;
    steps = steps < STEPS_LEAST ? STEPS_LEAST : steps > STEPS_MOST ? STEPS_MOST : steps;
    return steps * p->spec->batching.global_batch;
}

/* Waits until all have ended. The first failure is the error; those that run too long are stopped.
 */
static int wait_all(const pid_t *pids, int count, struct err *e)
{
    double until = clock_now() + limit_seconds;
    int rc = 0, code = 0;
    for (int i = 0; i < count; i++) {
        bool ended = proc_poll(pids[i], &code);
        while (!ended && clock_now() < until) {
            clock_sleep(0.001);
            ended = proc_poll(pids[i], &code);
        }
        if (!ended) {
            proc_stop(pids[i], 0);
        }
        if (rc == 0 && !ended) {
            rc = err_set(e, ERR_TIMEOUT, "the simulator did not end within %g s", limit_seconds);
        } else if (rc == 0 && code != 0) {
            rc = err_set(e, ERR_INTERNAL, "the simulator ended with code %d", code);
        }
    }
    return rc;
}

/* Starts the run with one seed; its summary is DIR/outSEED/summary.json. */
static pid_t start(const struct prediction *p, int seed, int64_t samples, struct err *e)
{
    char job[96], cluster[96], out[96], number[16], count[32];
    snprintf(job, sizeof job, "%s/job.json", p->dir);
    snprintf(cluster, sizeof cluster, "%s/cluster.json", p->dir);
    snprintf(out, sizeof out, "%s/out%d", p->dir, seed);
    snprintf(number, sizeof number, "%d", seed);
    snprintf(count, sizeof count, "%lld", (long long)samples);
    const char *argv[] = {p->d->simulator, "--job", job,      "--cluster", cluster,
                          "--out",         out,     "--seed", number,      "--timing-only",
                          "--samples",     count,   NULL};
    struct proc_spec spec = {.argv = argv};
    return proc_start(&spec, e);
}

static int by_rate(const void *a, const void *b)
{
    double x = ((const struct summary_read *)a)->samples_per_second,
           y = ((const struct summary_read *)b)->samples_per_second;
    return (x > y) - (x < y);
}

/* `runs` in the order of their rates. */
static json_t *row_of(const struct prediction *p, const struct summary_read runs[SEEDS],
                      const char *strategy, bool chosen)
{
    const struct summary_read *median = &runs[SEEDS / 2];
    double rate = median->samples_per_second, batch = p->spec->batching.global_batch,
           slowest = runs[0].samples_per_second, fastest = runs[SEEDS - 1].samples_per_second;
    const struct strategy_traits *traits =
        strategy_traits(catalog_find(CATALOG_STRATEGY, strategy)->id);
    json_t *row = json_pack(
        "{s:s, s:b, s:f, s:f, s:f, s:f, s:o, s:b, s:o, s:O, s:I}", "strategy", strategy, "chosen",
        chosen, "step_seconds", rate > 0 ? batch / rate : 0, "step_seconds_least",
        fastest > 0 ? batch / fastest : 0, "step_seconds_most", slowest > 0 ? batch / slowest : 0,
        "samples_per_second", rate, "sample_worth",
        traits->worth > 0 ? json_real(traits->worth) : json_null(), "replicas_drift",
        traits->replicas == REPLICAS_AVERAGED, "epoch_seconds",
        p->epoch_samples > 0 && rate > 0 ? json_real((double)p->epoch_samples / rate) : json_null(),
        "staleness", median->staleness, "memory_bytes", (json_int_t)median->rank_memory_bytes);
    if (chosen) {
        json_object_set(row, "workers", median->steps);
    }
    return row;
}

/* The row of the summaries that the runs left. */
static json_t *read_row(const struct prediction *p, const char *strategy, bool chosen,
                        struct err *e)
{
    struct summary_read runs[SEEDS] = {0};
    json_t *documents[SEEDS] = {0}, *row = NULL;
    int read = 0;
    while (read < SEEDS) {
        char path[128];
        snprintf(path, sizeof path, "%s/out%d/summary.json", p->dir, read);
        documents[read] = jsonx_load(path, 4 << 20, e);
        if (!documents[read] || summary_read(&runs[read], documents[read], e) < 0) {
            break;
        }
        read++;
    }
    if (read == SEEDS) {
        qsort(runs, SEEDS, sizeof runs[0], by_rate);
        row = row_of(p, runs, strategy, chosen);
    }
    for (int i = 0; i < SEEDS; i++) {
        summary_release(&runs[i]);
        json_decref(documents[i]);
    }
    return row;
}

/* NULL if the strategy cannot run this job. */
static json_t *simulate(const struct prediction *p, const char *strategy, bool chosen,
                        struct err *e)
{
    struct jobspec as = {.strategy.type = catalog_find(CATALOG_STRATEGY, strategy)->id};
    int64_t samples = samples_of(p, jobspec_uses_server(&as));
    json_t *j = job_of(p, strategy, chosen);
    int rc = write_json(p->dir, "job.json", j, e), started = 0;
    pid_t pids[SEEDS];
    json_decref(j);
    while (rc >= 0 && started < SEEDS) {
        pids[started] = start(p, started, samples, e);
        rc = pids[started] < 0 ? (int)pids[started] : 0;
        started += rc == 0;
    }
    struct err of_runs = {0};
    int ended = wait_all(pids, started, &of_runs);
    if (rc < 0) {
        return NULL;
    }
    if (ended < 0) {
        *e = of_runs;
        return NULL;
    }
    return read_row(p, strategy, chosen, e);
}

static bool is_compared(const char *strategy)
{
    return strategy_traits(catalog_find(CATALOG_STRATEGY, strategy)->id)->shown == SHOWN_COMPARED;
}

static json_t *simulate_all(struct prediction *p, struct err *e)
{
    int n;
    const char *const *all = catalog_names(CATALOG_STRATEGY, &n);
    json_t *rows = json_array();
    const char *chosen = catalog_get(p->spec->strategy.type)->name;
    snprintf(p->dir, sizeof p->dir, "/tmp/evenstep-predict-XXXXXX");
    if (!mkdtemp(p->dir)) {
        err_errno(e, ERR_IO, "cannot make a folder in /tmp");
        json_decref(rows);
        return NULL;
    }
    int rc = write_json(p->dir, "cluster.json", p->cluster, e);
    for (int i = -1; i < n && rc >= 0; i++) {
        if (i >= 0 && (strcmp(all[i], chosen) == 0 || !is_compared(all[i]))) {
            continue;
        }
        struct err why = {0};
        json_t *row = simulate(p, i < 0 ? chosen : all[i], i < 0, i < 0 ? e : &why);
        if (row) {
            json_array_append_new(rows, row);
        } else if (i < 0) {
            rc = -(int)e->code;
        }
    }
    proc_remove_tree(p->dir, NULL);
    if (rc < 0) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

json_t *predict_job(void *ctx, const json_t *json, int64_t samples, struct err *e)
{
    struct prediction p = {.d = ctx};
    struct jsonx_problems problems = {0};
    struct jobspec *spec = calloc(1, sizeof *spec);
    struct store *store = store_open(p.d->store_url, p.d->store_password, e);
    char reason[200] = "";
    json_t *rows = NULL;
    int rc = spec && store ? jobspec_parse(spec, json, &problems) : -ERR_MEMORY;
    p.spec = spec;
    p.workers = spec ? spec->workers : 0;
    if (rc >= 0 && spec->cluster) {
        rc = take_cluster(&p, e);
    } else if (rc >= 0) {
        rc = place_job(&p, store, reason, e);
    }
    if (rc == 0) {
        p.epoch_samples = samples > 0 ? samples : spec->data.samples; /* of glyphs */
        rows = simulate_all(&p, e);
    }
    json_decref(p.sizes);
    jsonx_problems_release(&problems);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    store_close(store);
    if (rc < 0 || (rc == 0 && !rows)) {
        json_decref(p.cluster);
        return NULL;
    }
    return json_pack("{s:b, s:s?, s:o?, s:o}", "approximate", 1, "reason",
                     reason[0] ? reason : NULL, "cluster", p.cluster, "strategies",
                     rows ? rows : json_array());
}

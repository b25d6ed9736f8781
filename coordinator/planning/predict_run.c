/* One strategy's row of a prediction: see predict_run.h. The simulator runs SEEDS times at once,
 * each run a process of its own. The row is that of the median run. */
#include "coordinator/planning/predict_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/process/proc.h"
#include "job/documents/results/summary.h"

enum { EVENTS = 250000, STEPS_LEAST = 20, STEPS_MOST = 480, SEEDS = 3 };
static const double limit_seconds = 3;

int predict_write(const char *dir, const char *name, const json_t *j, struct err *e)
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

int predict_batch(const struct prediction *p)
{
    int asked = p->spec->batching.global_batch;
    return p->epoch_samples > 0 && p->epoch_samples < asked ? (int)p->epoch_samples : asked;
}

/* The minibatches of a simulated job: how much of the first ones a step takes. */
struct shares {
    int sizes[SPEC_WORKERS];
    int sum; /* the simulated global batch; under a server each worker may get up to the whole
                set */
};

static struct shares shares_of(const struct prediction *p, bool server)
{
    struct shares out = {.sum = p->first ? 0 : p->spec->batching.global_batch};
    if (p->first) {
        const struct assignment *first = &p->first[server ? PREDICT_SERVED : PREDICT_TOGETHER];
        memcpy(out.sizes, first->sizes, sizeof out.sizes);
        assign_taken(out.sizes, p->workers, !server, p->epoch_samples);
    }
    for (int i = 0; p->first && i < p->workers; i++) {
        out.sizes[i] = out.sizes[i] > 0 ? out.sizes[i] : 1;
        out.sum += out.sizes[i];
    }
    return out;
}

static json_t *batching_of(const struct shares *s, int workers)
{
    json_t *sizes = json_array();
    for (int i = 0; i < workers; i++) {
        json_array_append_new(sizes, json_integer(s->sizes[i]));
    }
    return json_pack("{s:s, s:i, s:o}", "policy", "static", "global_batch", s->sum, "sizes", sizes);
}

/* The spec to simulate: the job with this strategy and one epoch of `samples`. */
static json_t *job_of(const struct prediction *p, const struct shares *shares, const char *strategy,
                      bool chosen)
{
    json_t *job = json_deep_copy(p->spec->json);
    static const char *const left_out[] = {"cluster",  "init",       "target", "nodes",
                                           "evaluate", "checkpoint", "elastic"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        json_object_del(job, left_out[i]);
    }
    if (!chosen) { /* takes the values that every strategy accepts */
        json_object_set_new(job, "strategy", json_pack("{s:s}", "type", strategy));
        json_object_set_new(job, "optimizer", json_pack("{s:s}", "type", "sgd"));
    }
    if (p->first) {
        json_object_set_new(job, "workers", json_integer(p->workers));
        json_object_set_new(job, "batching", batching_of(shares, p->workers));
    }
    json_object_set_new(job, "epochs", json_integer(1));
    json_object_set_new(job, "evaluate", json_pack("{s:i}", "every_epochs", 1000));
    return job;
}

/* How many samples make about EVENTS events: a push and its answer are about 8 events, a ring of W
 * ranks about 8 W for each rank. With 16 nodes and slow links the length of a round settles within
 * some hundred steps; a run of 20 steps shows half of the speed. */
static int64_t samples_of(const struct prediction *p, bool server, int batch)
{
    int64_t W = p->workers, per_step = server ? 8 * W : 8 * W * (W < 16 ? W : 16),
            steps = EVENTS / per_step;
    steps = steps < STEPS_LEAST ? STEPS_LEAST : steps > STEPS_MOST ? STEPS_MOST : steps;
    return steps * batch;
}

/* Waits until all runs have ended, and stops those that take too long. The first failure is the
 * error. */
static int wait_all(const pid_t *pids, int count, struct err *e)
{
    double until = clock_now() + limit_seconds;
    int rc = 0;
    for (int i = 0; i < count; i++) {
        int code = proc_await(pids[i], until - clock_now());
        if (rc == 0 && code < 0) {
            rc = err_set(e, ERR_TIMEOUT, "the simulator did not end within %g s", limit_seconds);
        } else if (rc == 0 && code > 0) {
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

/* The row of the median run; `runs` are in the order of their rates. */
static json_t *row_of(const struct prediction *p, const struct summary_read runs[SEEDS],
                      const char *strategy, bool chosen)
{
    const struct summary_read *median = &runs[SEEDS / 2];
    double rate = median->samples_per_second, batch = predict_batch(p),
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
    json_object_set(row, "workers", median->steps);
    return row;
}

/* Reads the summaries of the runs. */
static int read_runs(const struct prediction *p, const char *strategy, bool chosen,
                     struct predicted *out, struct err *e)
{
    struct summary_read runs[SEEDS] = {0};
    json_t *documents[SEEDS] = {0};
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
        out->row = row_of(p, runs, strategy, chosen);
        out->exchange_seconds = runs[SEEDS / 2].exchange_seconds;
    }
    for (int i = 0; i < SEEDS; i++) {
        summary_release(&runs[i]);
        json_decref(documents[i]);
    }
    return read == SEEDS ? 0 : -(int)e->code;
}

int predict_run(const struct prediction *p, const char *strategy, bool chosen,
                struct predicted *out, struct err *e)
{
    struct jobspec as = {.strategy.type = catalog_find(CATALOG_STRATEGY, strategy)->id};
    bool server = jobspec_uses_server(&as);
    struct shares shares = shares_of(p, server);
    int64_t samples = samples_of(p, server, shares.sum);
    json_t *j = job_of(p, &shares, strategy, chosen);
    int rc = predict_write(p->dir, "job.json", j, e), started = 0;
    pid_t pids[SEEDS];
    *out = (struct predicted){0};
    json_decref(j);
    while (rc >= 0 && started < SEEDS) {
        pids[started] = start(p, started, samples, e);
        rc = pids[started] < 0 ? (int)pids[started] : 0;
        started += rc == 0;
    }
    struct err of_runs = {0};
    int ended = wait_all(pids, started, &of_runs);
    if (rc < 0) {
        return rc;
    }
    if (ended < 0) {
        *e = of_runs;
        return ended;
    }
    return read_runs(p, strategy, chosen, out, e);
}

/* What a virtual job leaves: see report.h. The files that stay do not depend on the real clock, so
 * a rerun writes the same bytes. Only progress.json depends on it, and it is removed when the
 * summary is written. */
#include "simulator/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "job/documents/results/summary.h"

enum { RECENT = 100 }; /* updates */
static const double PROGRESS_SECONDS = 0.5;

struct step_sums { /* sums over `n` steps with one minibatch, or with any */
    int64_t steps, batch;
    double compute, exchange, wait;
};

struct rank_report {
    struct telemetry telemetry;
    struct report *report;
    int rank;
    struct staleness staleness;
    int64_t updates, samples;
    struct step_sums all, now; /* of the run, and of the current minibatch */
    int64_t other;             /* the newest step had this minibatch, the one before had the current
                                  one */
    int batch;
    enum phase phase;
};

struct report {
    const struct jobspec *spec;
    const struct cluster *cluster;
    struct sender from; /* the attempt of this run; attempt 0: none */
    struct world *world;
    char dir[4096];
    struct history *history;
    struct balancer balancer;
    int undecided;             /* rows since the balancer was asked */
    struct rank_report *ranks; /* workers, keeper, servers */
    int n_ranks;
    int64_t train_samples, samples, steps;
    double seconds; /* time of the last update that was applied */
    struct {
        int64_t step;
        double loss, weight;
    } recent[RECENT];               /* sums of an update, which may have many rows, at index step %
                                       RECENT */
    struct evaluations evaluations; /* owned */
    double best_accuracy;
    json_t *assignments; /* assignments of all versions; owned */
    double rank_bytes;   /* see report_memory */
    bool over;           /* the run has ended, well or not */
    double told;         /* when progress.json was last written, in real time */
    struct err err;      /* the first error while writing */
};

static void on_phase(void *ctx, enum phase p)
{
    struct rank_report *r = ctx;
    r->phase = p;
    /* start, evaluation and checkpoints cost no virtual time (docs/virtual-cluster.md#the-clock) */
    world_set_free(r->report->world, r->rank,
                   p == PHASE_LOAD || p == PHASE_PREPARE || p == PHASE_EVALUATE ||
                       p == PHASE_CHECKPOINT);
}

static void note_assignment(struct report *w)
{
    const char *names[SPEC_WORKERS];
    for (int i = 0; i < w->spec->workers; i++) {
        names[i] = w->cluster->nodes[i].name;
    }
    struct assignment a = w->balancer.current;
    assign_taken(a.sizes, a.workers, !jobspec_uses_server(w->spec), w->train_samples);
    json_array_append_new(w->assignments, assignment_json(&a, names, NULL));
}

static void balance(struct report *w, const struct row *row)
{
    if (row->batch > 0) {
        balancer_observe(&w->balancer, row->rank, row->batch, row_own_seconds(row), row->time);
        if (++w->undecided >= w->spec->workers) { /* a decision costs a pass over all nodes */
            w->undecided = 0;
            if (balancer_decide(&w->balancer, row->step)) {
                note_assignment(w);
            }
        }
    }
}

static int keep_row(struct report *w, const struct row *row)
{
    struct row kept = *row;
    kept.attempt = 1;
    return history_append(w->history, &kept, 1, w->err.code ? NULL : &w->err);
}

static void tell_progress(struct report *r);

static void note_loss(struct report *w, const struct row *row)
{
    int at = (int)(row->step % RECENT);
    if (row->step > w->recent[at].step) {
        w->recent[at].step = row->step;
        w->recent[at].loss = w->recent[at].weight = 0;
    }
    if (row->step == w->recent[at].step) {
        w->recent[at].loss += (double)row->loss * row->batch;
        w->recent[at].weight += row->batch;
    }
}

static void add_step(struct step_sums *s, const struct row *row)
{
    s->steps++;
    s->compute += row->compute_seconds;
    s->exchange += row->exchange_seconds;
    s->wait += row->wait_seconds;
}

/* Notes a step's times. Means begin anew at the second step in a row with another minibatch, as in
 * the monitor: a single one may be the last slice of an epoch. */
static void note_times(struct rank_report *r, const struct row *row)
{
    bool another = row->batch != r->now.batch;
    if (r->now.steps == 0 || (another && row->batch == r->other)) {
        r->now = (struct step_sums){.batch = row->batch};
        another = false;
    }
    r->other = another ? row->batch : 0;
    add_step(&r->now, row);
    add_step(&r->all, row);
}

static void on_row(void *ctx, const struct row *row)
{
    struct report *w = ((struct rank_report *)ctx)->report;
    struct rank_report *r = &w->ranks[row->rank];
    if (w->history && keep_row(w, row) < 0) {
        return;
    }
    if (row->batch > 0) {
        staleness_add(&r->staleness, row->staleness, row->batch);
        r->updates++;
        note_times(r, row);
    }
    r->samples += row->batch;
    w->samples += row->batch;
    note_loss(w, row);
    w->steps = row->step > w->steps ? row->step : w->steps;
    w->seconds = row->time > w->seconds ? row->time : w->seconds;
    balance(w, row);
    tell_progress(w);
}

static void on_evaluated(void *ctx, const struct evaluation *ev)
{
    struct report *w = ((struct rank_report *)ctx)->report;
    evaluations_add(&w->evaluations, ev, w->samples);
    w->best_accuracy = ev->accuracy > w->best_accuracy ? ev->accuracy : w->best_accuracy;
    history_evaluation(w->history, ev->step, ev->epoch, ev->time, (double)w->samples, ev->loss,
                       ev->accuracy, w->err.code ? NULL : &w->err);
}

static void on_norms(void *ctx, const struct norms *n)
{
    struct report *w = ((struct rank_report *)ctx)->report;
    if (w->history) {
        history_norms(w->history, n, w->err.code ? NULL : &w->err);
    }
}

static void on_profile(void *ctx, const struct profile *p)
{
    (void)ctx;
    (void)p;
}

static void on_saved(void *ctx, const char *kind, const char *path, int64_t step, double time)
{
    (void)ctx;
    (void)time;
    log_debug("simulator", "saved", "kind=%s path=%s step=%lld", kind, path, (long long)step);
}

static void on_control(void *ctx, struct control *out)
{
    const struct report *r = ((struct rank_report *)ctx)->report;
    out->stop = out->pause = out->checkpoint = false;
    if (out->version != r->balancer.current.version) {
        out->version = report_sizes(r, out->sizes);
    }
}

/* Reads the attempt from the coordinator that started this run (launchers/sim.c). */
static void note_attempt(struct sender *from)
{
    const char *job = getenv("EVENSTEP_JOB"), *attempt = getenv("EVENSTEP_ATTEMPT");
    from->rank = COORDINATOR;
    if (job && attempt) {
        snprintf(from->job, sizeof from->job, "%s", job);
        from->attempt = (int)strtol(attempt, NULL, 10);
    }
}

/* Starts the balancer. Without profiles of an earlier job the first minibatches are equal, as on
 * real nodes. If workers step together, they share the samples that a step really has
 * (balancer_narrow). */
static int init_balancer(struct report *r, struct err *e)
{
    const char *names[SPEC_WORKERS];
    const struct batching_spec *batching = &r->spec->batching;
    for (int i = 0; i < r->spec->workers; i++) {
        names[i] = r->cluster->nodes[i].name;
    }
    int rc = balancer_init(&r->balancer, batching, r->spec->workers, 4, NULL, names, e);
    if (rc >= 0 && batching->policy == BATCH_DYNAMIC && !jobspec_uses_server(r->spec)) {
        balancer_narrow(&r->balancer, r->train_samples);
    }
    return rc;
}

struct report *report_new(const struct jobspec *spec, const struct cluster *cluster,
                          struct world *world, const char *dir, int64_t train_samples, bool history,
                          struct err *e)
{
    struct report *r = calloc(1, sizeof *r);
    BUG_ON(!r);
    r->spec = spec;
    r->cluster = cluster;
    r->world = world;
    r->train_samples = train_samples;
    r->assignments = json_array();
    r->told = clock_now();
    note_attempt(&r->from);
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    r->n_ranks = spec->workers + spec->strategy.servers;
    r->ranks = calloc((size_t)r->n_ranks, sizeof *r->ranks);
    BUG_ON(!r->ranks);
    const char *names[SPEC_WORKERS];
    for (int i = 0; i < r->n_ranks; i++) {
        struct rank_report *k = &r->ranks[i];
        k->report = r;
        k->rank = i;
        k->telemetry = (struct telemetry){.ctx = k,
                                          .phase = on_phase,
                                          .row = on_row,
                                          .evaluated = on_evaluated,
                                          .norms = on_norms,
                                          .profile = on_profile,
                                          .saved = on_saved,
                                          .control = on_control};
        staleness_init(&k->staleness);
        if (i < spec->workers) {
            names[i] = cluster->nodes[i].name;
        }
    }
    if (init_balancer(r, e) < 0 ||
        (history && !(r->history = history_open(dir, spec->workers, names, e)))) {
        report_free(r);
        return NULL;
    }
    note_assignment(r);
    return r;
}

void report_free(struct report *r)
{
    if (!r) {
        return;
    }
    if (r->history) {
        history_close(r->history);
    }
    for (int i = 0; i < r->n_ranks; i++) {
        staleness_release(&r->ranks[i].staleness);
    }
    balancer_release(&r->balancer);
    json_decref(r->assignments);
    evaluations_release(&r->evaluations);
    free(r->ranks);
    free(r);
}

void report_memory(struct report *r, double rank_bytes)
{
    r->rank_bytes = rank_bytes;
}

struct telemetry *report_telemetry(struct report *r, int rank)
{
    return &r->ranks[rank].telemetry;
}

int report_sizes(const struct report *r, int *sizes)
{
    const struct assignment *a = &r->balancer.current;
    if (r->balancer.batching.global_batch < r->spec->batching.global_batch) {
        balancer_share(&r->balancer, r->spec->batching.global_batch, sizes);
    } else {
        memcpy(sizes, a->sizes, sizeof a->sizes);
    }
    return a->version;
}

/* Samples of a step, at most the training set's. */
static int step_samples(const struct report *r)
{
    int asked = r->spec->batching.global_batch;
    return r->train_samples > 0 && r->train_samples < asked ? (int)r->train_samples : asked;
}

/* Notes the workers' figures. Times are those of the current minibatch during the run, and of the
 * whole run at its end. */
static void note_workers(const struct report *r, const struct err *failure, struct live_worker *out)
{
    double t = r->seconds;
    int batches[SPEC_WORKERS];
    memcpy(batches, r->balancer.current.sizes, sizeof batches);
    assign_taken(batches, r->spec->workers, !jobspec_uses_server(r->spec), r->train_samples);
    for (int i = 0; i < r->spec->workers; i++) {
        const struct rank_report *k = &r->ranks[i];
        const struct step_sums *of = r->over ? &k->all : &k->now;
        double n = of->steps > 0 ? (double)of->steps : 1;
        out[i] = (struct live_worker){.rank = i,
                                      .node = r->cluster->nodes[i].name,
                                      .device = "virtual",
                                      .state = failure ? "stopped" : phase_name(k->phase),
                                      .batch = batches[i],
                                      .updates = k->updates,
                                      .samples = k->samples,
                                      .samples_per_second = t > 0 ? (double)k->samples / t : 0,
                                      .compute_seconds = of->compute / n,
                                      .exchange_seconds = of->exchange / n,
                                      .wait_seconds = of->wait / n,
                                      .staleness = &k->staleness,
                                      .histogram = true};
    }
}

/* Virtual samples/s divided by those of the fastest node alone with the whole batch. */
static double speedup(const struct report *r)
{
    double best = 0, t = r->seconds;
    int B = step_samples(r);
    for (int i = 0; i < r->spec->workers; i++) {
        const struct virtual_node *n = &r->cluster->nodes[i];
        double rate = B / (n->fixed_seconds + n->seconds_per_sample * B);
        best = rate > best ? rate : best;
    }
    return t > 0 && best > 0 ? (double)r->samples / t / best : 0;
}

static struct live_metrics metrics_of(const struct report *r)
{
    double loss = 0, weight = 0, t = r->seconds;
    for (int i = 0; i < RECENT; i++) {
        bool is = r->recent[i].step > r->steps - RECENT;
        loss += is ? r->recent[i].loss : 0;
        weight += is ? r->recent[i].weight : 0;
    }
    const struct evaluation *last = evaluations_last(&r->evaluations);
    return (struct live_metrics){
        .train_loss = r->history && weight > 0 ? loss / weight : NAN, /* a timing-only run has no
                                                                         loss */
        .test_loss = last ? last->loss : NAN,
        .test_accuracy = last ? last->accuracy : NAN,
        .best_test_accuracy = evaluations_best(&r->evaluations),
        .samples_per_second = t > 0 ? (double)r->samples / t : 0,
        .step_seconds = r->steps > 0 ? t / (double)r->steps : 0};
}

static struct live_progress progress_of(const struct report *r)
{
    double all = r->spec->epochs * (double)r->train_samples, done = (double)r->samples;
    return (struct live_progress){.epoch =
                                      r->train_samples > 0 ? done / (double)r->train_samples : 0,
                                  .epochs = r->spec->epochs,
                                  .step = r->steps,
                                  .samples = r->samples,
                                  .fraction = all > 0 ? done / all : 0};
}

static const char *policy_name(const struct report *r)
{
    int policy = r->spec->batching.policy;
    return policy == BATCH_DYNAMIC ? "dynamic" : policy == BATCH_STATIC ? "static" : "equal";
}

/* The summary. failure: why the run failed; NULL: it did not. New reference; NULL: memory ran
 * out. */
static json_t *summary_of(const struct report *r, const struct err *failure)
{
    int n = r->spec->workers;
    struct live_worker *workers = calloc((size_t)n, sizeof *workers);
    if (!workers) {
        return NULL;
    }
    note_workers(r, failure, workers);
    struct summary s = {.from = r->from,
                        .name = r->spec->name,
                        .strategy = catalog_get(r->spec->strategy.type)->name,
                        .batching = policy_name(r),
                        .virtual_seconds = r->seconds,
                        .epochs = r->spec->epochs,
                        .speedup = speedup(r),
                        .updates = r->steps,
                        .samples = r->samples,
                        .metrics = metrics_of(r),
                        .progress = progress_of(r),
                        .workers = workers,
                        .n_workers = n,
                        .version = r->balancer.current.version,
                        .global_batch = step_samples(r),
                        .assignments = r->assignments,
                        .evaluations = &r->evaluations,
                        .error = failure,
                        .rank_memory_bytes = (int64_t)r->rank_bytes};
    json_t *j = summary_json(&s);
    free(workers);
    return j;
}

static int write_json(const struct report *r, const char *name, json_t *j, struct err *e)
{
    char path[4200];
    size_t n;
    char *text = jsonx_dump(j, true, &n);
    json_decref(j);
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    int rc = text ? proc_write_file(path, text, n, 0644, e)
                  : err_set(e, ERR_MEMORY, "cannot write '%s': memory ran out", path);
    free(text);
    return rc;
}

/* Writes progress.json for the page, in the summary's form, at intervals of the real clock. With a
 * thousand nodes and long histograms it has megabytes, so the writing may take at most a twentieth
 * of the time. */
static void tell_progress(struct report *r)
{
    double now = clock_now();
    if (r->history && now - r->told > PROGRESS_SECONDS) {
        r->told = now;
        if (history_flush(r->history, &r->err) >= 0) {
            write_json(r, "progress.json", summary_of(r, NULL), &r->err);
        }
        double due = 20 * (clock_now() - now);
        r->told += due > PROGRESS_SECONDS ? due - PROGRESS_SECONDS : 0;
    }
}

int report_write(struct report *r, struct err *e)
{
    char path[4200];
    if (r->err.code) {
        return err_set(e, r->err.code, "%s", r->err.message);
    }
    r->over = true;
    int rc = r->history ? history_flush(r->history, e) : 0;
    if (rc >= 0) {
        rc = write_json(r, "summary.json", summary_of(r, NULL), e);
    }
    snprintf(path, sizeof path, "%s/progress.json", r->dir);
    unlink(path);
    return rc;
}

void report_failure(struct report *r, const struct err *why)
{
    r->over = true;
    struct err told = {.code = why->code}; /* without the hint, for which a job's error has no
                                              field */
    snprintf(told.message, sizeof told.message, "%s%s%s", why->message, why->hint[0] ? "; " : "",
             why->hint);
    if (r->history && history_flush(r->history, NULL) >= 0) {
        write_json(r, "progress.json", summary_of(r, &told), NULL);
    }
}

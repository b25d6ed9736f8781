/* The trainer: one worker rank from its start to its end, the same over MPI and on the virtual
 * clock.
 *
 *     receive start ─► calibrate ─► strategy start ─► ┌ next ─► load slice ─► compute, buckets leave as they are ready ─► on_gradients ┐
 *                                                      └───────────────────────◄──────────────────────────────────────────────────────┘
 *
 * Which samples, how many, when to evaluate and when to end: all of that is the strategy's. The
 * trainer knows the network, the data and the device, which the strategy never sees. Time spent
 * computing is measured here, up to the last gradient and without the time spent handing buckets
 * over: under a barrier everybody's step takes equally long, and only this figure tells who is slow
 * (DESIGN.md decision 10). Nothing is allocated in a step.
 */
#include "worker/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/data/loader.h"
#include "worker/model/model.h"
#include "worker/start.h"

enum { CALIBRATION_STEPS = 3 };

struct trainer {
    struct trainer_env *env;
    struct rank_env rank;
    struct start *start; /* NULL once the strategy has begun: its blocks are copies by then */
    struct model model;
    struct loader loader;
    struct strategy *strategy;
    uint8_t *decay;
    int32_t *mean_of;
    int64_t local_step;
    /* of the step under way */
    const struct dev_program_head *program;
    int count;
    double handing;      /* seconds spent in on_bucket */
    struct profile told; /* what the coordinator knows of this node; count 0: nothing */
};

/* ---- what the strategy may ask --------------------------------------------------------------- */

static void tell_row(void *ctx, const struct row *row)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->row(t->ctx, row);
}

static void tell_evaluated(void *ctx, const struct evaluation *ev)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->evaluated(t->ctx, ev);
}

static void ask_control(void *ctx, struct control *out)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->control(t->ctx, out);
}

static bool is_ready(void *ctx, int batch)
{
    return model_ready(&((struct trainer *)ctx)->model, batch);
}

static void set_phase(struct trainer *t, enum phase p)
{
    t->env->telemetry->phase(t->env->telemetry->ctx, p);
}

static void set_aside(void *ctx, bool on)
{
    set_phase(ctx, on ? PHASE_CHECKPOINT : PHASE_EXCHANGE);
}

/* ---- start ----------------------------------------------------------------------------------- */

static int store_block(struct trainer *t, enum dev_block b, const float *from, size_t n,
                       struct err *e)
{
    struct dev_replica *r = &t->model.replica;
    if (!from || n == 0 || n != r->count[b]) {
        return 0; /* the optimizer state of a server strategy stays at the server */
    }
    if (r->host[b] != from) {
        memcpy(r->host[b], from, n * sizeof(float));
    }
    return t->env->dev->ops->store(r, b, 0, n, e);
}

static int load_start(struct trainer *t, struct err *e)
{
    const struct run_state *s = &t->start->from.state;
    int rc = store_block(t, DEV_PARAMS, s->params, s->n_params, e);
    rc = rc < 0 ? rc : store_block(t, DEV_OPTIM, s->optim, s->n_optim, e);
    return rc < 0 ? rc : store_block(t, DEV_STATS, s->stats, s->n_stats, e);
}

static void no_mark(void *ctx, int bucket)
{
    (void)ctx;
    (void)bucket;
}

/* The shortest of a few steps over `batch` samples: CPU time where the CPU computes, so that
 * neighbours do not count. */
static int time_steps(struct trainer *t, int batch, double *seconds, struct err *e)
{
    struct device *dev = t->env->dev;
    bool cpu = strcmp(dev->ops->name, "cpu") == 0;
    struct slice slice = {
        0, 0, batch < t->env->data->train.samples ? batch : t->env->data->train.samples};
    struct dev_program *p = model_program(&t->model, batch, e);
    struct dev_input in = {0};
    struct dev_result result;
    int rc = p ? loader_get(&t->loader, &slice, &in, e) : -ERR_DEVICE;
    for (int i = 0; rc >= 0 && i <= CALIBRATION_STEPS; i++) {
        double begin = cpu ? clock_thread_cpu() : clock_now();
        rc = dev->ops->compute(p, &in, &result, NULL, no_mark, NULL, e);
        double took = (cpu ? clock_thread_cpu() : clock_now()) - begin;
        if (i == 1 || (i > 1 && took < *seconds)) { /* the first warms up */
            *seconds = took;
        }
    }
    return rc < 0 ? rc : 0;
}

/* The largest minibatch, for the balancer; 0: there is room for any. */
static int limit_of(struct trainer *t)
{
    int largest = model_limit(&t->model);
    return largest < t->env->spec->batching.global_batch ? largest : 0;
}

/* Reference time of this node: two sizes, one line. Gradients are thrown away, parameters do not
 * change. */
static int calibrate(struct trainer *t, struct err *e)
{
    int high = t->env->first_sizes[t->env->comm->rank], low = high / 2;
    double t_low = 0, t_high = 0;
    struct profile p;
    high = high < 1 ? 1 : high;
    low = low < 1 ? 1 : low;
    int rc = time_steps(t, low, &t_low, e);
    rc = rc < 0 ? rc : time_steps(t, high, &t_high, e);
    if (rc < 0) {
        return err_prefix(e, "cannot calibrate the node");
    }
    profile_init(&p);
    p.k = high > low ? (t_high - t_low) / (high - low) : 0;
    if (p.k <
        0.2 * t_high / high) { /* one line through two points: noise must not make samples free */
        p.k = t_high / high;
    }
    p.a = t_high - p.k * high > 0 ? t_high - p.k * high : 0;
    p.count = 1;
    p.max_batch = limit_of(t);
    t->told = p;
    if (t->env->calibrated) {
        t->env->calibrated(t->env->step_ctx, &p);
    }
    t->env->telemetry->profile(t->env->telemetry->ctx, &p);
    return store_block(t, DEV_STATS, t->start->from.state.stats, t->start->from.state.n_stats, e);
}

/* The first minibatch did not fit: the coordinator hears of the limit, so that the next attempt
 * keeps it. */
static void tell_what_fits(struct trainer *t, int first)
{
    struct profile p;
    profile_init(&p);
    p.max_batch = model_find_limit(&t->model, first);
    if (p.max_batch > 0) {
        t->env->telemetry->profile(t->env->telemetry->ctx, &p);
    }
}

static int prepare(struct trainer *t, struct err *e)
{
    struct trainer_env *env = t->env;
    const struct jobspec *spec = env->spec;
    int rank = env->comm->rank, first = env->first_sizes[rank];
    set_phase(t, PHASE_LOAD);
    int rc = env->virtual_time ? 0 : start_compare_data(env, env->data->digest, e);
    rc = rc < 0 ? rc : start_receive(t->start, env, e);
    rc = rc < 0 ? rc : dataset_check(env->data, &spec->data, &spec->network, e);
    if (rc < 0) {
        return rc;
    }
    set_phase(t, PHASE_PREPARE);
    rc = model_init(&t->model, env->dev, spec, !env->virtual_time, e);
    const struct strategy_ops *ops = strategy_find(spec->strategy.type);
    t->model.replica.alone = ops && ops->alone && ops->alone(env->comm);
    if (rc == 0 && t->model.replica.alone && env->dev->ops->fused) {
        log_info("trainer", "the device makes a step in one", "strategy=%s",
                 catalog_get(spec->strategy.type)->name);
    }
    rc = rc < 0 ? rc : load_start(t, e);
    rc = rc < 0 ? rc
                : loader_start(&t->loader, env->data, &spec->data, spec->seed,
                               first > 0 ? first : 1, !env->virtual_time, e);
    if (rc == 0 && !model_program(&t->model, first > 0 ? first : 1, e)) {
        rc = -ERR_DEVICE;
        if (e->code == ERR_MEMORY) {
            tell_what_fits(t, first);
        }
    }
    rc = rc < 0 ? rc : loader_keep(&t->loader, env->dev, e);
    if (rc == 0) {
        loader_feed(&t->loader, env->dev);
    }
    rc = rc < 0 ? rc : 0;
    if (rc == 0 && !env->virtual_time) {
        rc = calibrate(t, e);
    }
    t->decay = rc == 0 ? start_decay(&spec->network, e) : NULL;
    t->mean_of = rc == 0 ? start_mean_of(&spec->network, e) : NULL;
    return rc < 0 ? rc : t->decay && t->mean_of ? 0 : -ERR_MEMORY;
}

static void free_start(struct trainer *t)
{
    if (t->start) {
        start_release(t->start);
    }
    free(t->start);
    t->start = NULL;
}

static int start_strategy(struct trainer *t, struct err *e)
{
    const struct strategy_ops *ops = strategy_find(t->env->spec->strategy.type);
    if (!ops) {
        return err_set(e, ERR_UNSUPPORTED, "this build has no strategy '%s'",
                       catalog_get(t->env->spec->strategy.type)->name);
    }
    struct run_state *state = &t->start->from.state;
    start_rank_env(&t->rank, t->env, t->start, t->env->data->train.samples,
                   t->env->data->test.samples, t->decay, t->mean_of);
    t->rank.replica = &t->model.replica;
    t->rank.ctx = t;
    t->rank.row = tell_row;
    t->rank.evaluated = tell_evaluated;
    t->rank.control = ask_control;
    t->rank.ready = is_ready;
    t->rank.aside = set_aside;
    if (t->start->restored && t->env->telemetry->restored) {
        t->env->telemetry->restored(t->env->telemetry->ctx, state);
    }
    t->strategy = ops->start(&t->rank, state, e);
    free_start(t);
    return t->strategy ? 0 : -(int)e->code;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void hand_over(struct trainer *t, int bucket)
{
    const struct dev_bucket *b = &t->program->buckets[bucket];
    comm_pace(t->env->comm, b->work_done, t->count);
    double begin = comm_now(t->env->comm);
    t->strategy->ops->on_bucket(t->strategy, b, bucket, t->program->n_buckets);
    t->handing += comm_now(t->env->comm) - begin;
}

static void bucket_ready(void *ctx, int bucket)
{
    hand_over(ctx, bucket);
}

/* A rank without samples in this step still takes part in the exchange, with gradients of zero. */
static int no_samples(struct trainer *t, struct err *e)
{
    struct dev_replica *r = &t->model.replica;
    memset(r->host[DEV_GRADS], 0, r->count[DEV_GRADS] * sizeof(float));
    int rc = t->env->dev->ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e);
    for (int b = 0; rc >= 0 && b < t->program->n_buckets; b++) {
        hand_over(t, b);
    }
    return rc;
}

static int check_finite(const struct trainer *t, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    if (r->finite) {
        return 0;
    }
    err_set(e, ERR_DATA,
            "the loss is not finite any more: step %lld of worker %d, epoch %lld, minibatch %lld",
            (long long)t->local_step, t->env->comm->rank, (long long)w->slice.epoch,
            (long long)w->slice.count);
    err_hint(e, "a smaller learning rate, or gradient clipping");
    return -ERR_DATA;
}

/* A bucket that the device did not give out must not be missing, or old, in a sum. */
static int check_handed(const struct trainer *t, struct err *e)
{
    const struct err *failed = &t->strategy->failed;
    if (failed->code != ERR_NONE) {
        *e = *failed;
        return err_prefix(e, "cannot hand over the gradients of step %lld",
                          (long long)t->local_step);
    }
    return 0;
}

/* A minibatch turned out not to fit: the balancer must know, or it waits for it for ever. */
static void tell_limit(struct trainer *t)
{
    int limit = t->told.count > 0 ? limit_of(t) : 0;
    if (limit != t->told.max_batch && limit > 0) {
        t->told.max_batch = limit;
        t->env->telemetry->profile(t->env->telemetry->ctx, &t->told);
    }
}

static void tell_tuning(const struct trainer *t)
{
    const struct telemetry *to = t->env->telemetry;
    json_t *tuning = to->tuned ? dev_tuning(t->env->dev) : NULL;
    if (tuning) {
        to->tuned(to->ctx, tuning);
    }
}

static int compute(struct trainer *t, struct work *w, struct dev_program *p,
                   const struct dev_input *in, struct dev_result *result, struct err *e)
{
    const struct device_ops *ops = t->env->dev->ops;
    if (t->count == 0) {
        return no_samples(t, e);
    }
    w->updated = t->model.replica.alone && ops->fused;
    int rc = w->updated ? dev_step(p, in, w->learning_rate, 1.0, result, e)
                        : ops->compute(p, in, result, NULL, bucket_ready, t, e);
    comm_pace(t->env->comm, 1.0, t->count);
    return rc;
}

static int train(struct trainer *t, struct work *w, struct err *e)
{
    struct trainer_env *env = t->env;
    struct dev_input in = {0};
    struct dev_result result = {.finite = true};
    set_phase(t, PHASE_LOAD);
    int rc = w->slice.count > 0 ? loader_get(&t->loader, &w->slice, &in, e) : 0;
    loader_hint(&t->loader, &w->hint);
    struct dev_program *p =
        rc == 0 ? model_program(&t->model, w->batch > 0 ? w->batch : 1, e) : NULL;
    if (!p) {
        return rc < 0 ? rc : -ERR_DEVICE;
    }
    model_ready(&t->model, w->next_batch);
    tell_limit(t);
    tell_tuning(t);
    t->program = (const struct dev_program_head *)p;
    t->count = (int)w->slice.count;
    t->handing = 0;
    t->local_step++;
    set_phase(t, PHASE_COMPUTE);
    double begin = comm_now(env->comm);
    if (env->step_begin) {
        env->step_begin(env->step_ctx);
    }
    rc = compute(t, w, p, &in, &result, e);
    double seconds = comm_now(env->comm) - begin - t->handing;
    rc = rc < 0 ? rc : check_handed(t, e);
    rc = rc < 0 ? rc : check_finite(t, w, &result, e);
    set_phase(t, PHASE_EXCHANGE);
    return rc < 0 ? rc : t->strategy->ops->on_gradients(t->strategy, w, &result, seconds, e);
}

static int evaluate(struct trainer *t, const struct work *w, struct err *e)
{
    struct dev_result sum = {.finite = true};
    int chunk = model_largest_program(&t->model);
    struct dev_program *p = model_program(&t->model, chunk, e);
    int rc = p ? 0 : -ERR_DEVICE;
    set_phase(t, PHASE_EVALUATE);
    for (int64_t done = 0; rc >= 0 && done < w->eval_count; done += chunk) {
        int64_t n = w->eval_count - done < chunk ? w->eval_count - done : chunk;
        struct dev_input in = {0};
        struct dev_result r = {0};
        rc = loader_get_test(&t->loader, w->eval_first + done, n, &in, e);
        int64_t rest = w->eval_count - done - n;
        loader_hint_test(&t->loader, w->eval_first + done + n, rest < chunk ? rest : chunk);
        if (rc >= 0) {
            rc = t->env->dev->ops->compute(p, &in, &r, NULL, no_mark, NULL, e);
        }
        sum.loss += r.loss;
        sum.correct += r.correct;
        sum.finite = sum.finite && r.finite;
        set_phase(t,
                  PHASE_EVALUATE); /* shows progress: evaluation of a large test set takes long */
    }
    return rc < 0 ? rc : t->strategy->ops->on_evaluated(t->strategy, w, &sum, e);
}

static enum run_outcome outcome_of(enum action last)
{
    return last == DO_END ? RUN_ENDED : last == DO_PAUSE ? RUN_PAUSED : RUN_STOPPED;
}

static int run(struct trainer *t, struct err *e)
{
    struct work w;
    for (;;) {
        memset(&w, 0, sizeof(w));
        set_phase(t, PHASE_EXCHANGE);
        int rc = t->strategy->ops->next(t->strategy, &w, e);
        if (rc < 0) {
            return rc;
        }
        switch (w.action) {
        case DO_TRAIN:
            rc = train(t, &w, e);
            break;
        case DO_EVALUATE:
            rc = evaluate(t, &w, e);
            break;
        case DO_END:
        case DO_PAUSE:
        case DO_STOP:
            rc = t->strategy->ops->finish(t->strategy, e);
            return rc < 0 ? rc : (int)outcome_of(w.action);
        }
        if (rc < 0) {
            return rc;
        }
    }
}

int trainer_run(struct trainer_env *env, struct err *e)
{
    struct trainer *t = calloc(1, sizeof(*t));
    if (!t || !(t->start = calloc(1, sizeof(*t->start)))) {
        free(t);
        return err_set(e, ERR_MEMORY, "cannot start the trainer: memory ran out");
    }
    t->env = env;
    int rc;
    if ((rc = prepare(t, e)) >= 0 && (rc = start_strategy(t, e)) >= 0) {
        rc = run(t, e);
    }
    set_phase(t, PHASE_DONE);
    if (rc < 0 && !env->virtual_time) {
        return rc; /* the communication thread may still work on our blocks, and this process ends:
                      free nothing beneath it */
    }
    if (t->strategy) {
        t->strategy->ops->free(t->strategy);
    }
    loader_stop(&t->loader);
    model_release(&t->model);
    free_start(t);
    free(t->decay);
    free(t->mean_of);
    free(t);
    return rc;
}

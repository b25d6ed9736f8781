/* The engine of our own networks (worker/engine.h). The loader brings the slice, the model has a
 * device program of its size, and the device computes. At the start it measures the node's step
 * time with real samples, and discards their gradients. */
#include "worker/engine.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/minibatch/assign.h"
#include "worker/data/loader.h"
#include "worker/model/model.h"

enum { CALIBRATION_STEPS = 3 };

struct network_engine {
    struct engine base;
    struct model model;
    struct loader loader;
    struct dev_program *program; /* of the loaded step */
    struct dev_input in;
    struct profile told; /* what the coordinator knows about this node; count 0: nothing */
};

/* ---- start ----------------------------------------------------------------------------------- */

static int store_block(struct network_engine *g, enum dev_block b, const float *from, size_t n,
                       struct err *e)
{
    struct dev_replica *r = &g->model.replica;
    if (!from || n == 0 || n != r->count[b]) {
        return 0; /* a server strategy's optimizer state stays at the server */
    }
    if (r->host[b] != from) {
        memcpy(r->host[b], from, n * sizeof(float));
    }
    return r->dev->ops->store(r, b, 0, n, e);
}

static int load_start(struct network_engine *g, const struct run_state *s, struct err *e)
{
    int rc;
    if ((rc = store_block(g, DEV_PARAMS, s->params, s->n_params, e)) < 0 ||
        (rc = store_block(g, DEV_OPTIM, s->optim, s->n_optim, e)) < 0) {
        return rc;
    }
    return store_block(g, DEV_STATS, s->stats, s->n_stats, e);
}

static void no_mark(void *ctx, int bucket)
{
    (void)ctx;
    (void)bucket;
}

/* The shortest of a few steps over `batch` samples. On a CPU it is CPU time, so that other
 * processes do not count. */
static int time_steps(struct network_engine *g, int batch, double *seconds, struct err *e)
{
    const struct trainer_env *env = g->base.env;
    struct device *dev = env->dev;
    bool cpu = strcmp(dev->ops->name, "cpu") == 0;
    struct slice slice = {0, 0,
                          batch < env->data->train.samples ? batch : env->data->train.samples};
    struct dev_program *p = model_program(&g->model, batch, e);
    struct dev_input in = {0};
    struct dev_result result;
    int rc = p ? loader_get(&g->loader, &slice, &in, e) : -(int)e->code;
    for (int i = 0; rc >= 0 && i <= CALIBRATION_STEPS; i++) {
        double begin = cpu ? clock_thread_cpu() : clock_now();
        rc = dev->ops->compute(p, &in, &result, NULL, no_mark, NULL, e);
        double took = (cpu ? clock_thread_cpu() : clock_now()) - begin;
        if (i == 1 || (i > 1 && took < *seconds)) { /* the first step warms up */
            *seconds = took;
        }
    }
    return rc < 0 ? rc : 0;
}

/* Samples that a program for a minibatch of `batch` must hold: no more than a step brings. */
static int room_for(const struct network_engine *g, int batch)
{
    const struct trainer_env *env = g->base.env;
    return assign_slice(env->spec, batch > 0 ? batch : 1, env->data->train.samples);
}

/* The largest minibatch, for the balancer; 0: no limit. */
static int limit_of(struct network_engine *g)
{
    int largest = model_limit(&g->model);
    return largest < g->base.env->spec->batching.global_batch ? largest : 0;
}

/* Measures the reference time of this node: a line through two sizes. Discards gradients;
 * parameters stay unchanged. */
static int calibrate(struct network_engine *g, const struct run_state *from, struct err *e)
{
    const struct trainer_env *env = g->base.env;
    int high = room_for(g, env->first_sizes[env->comm->rank]), low = high / 2, rc;
    double t_low = 0, t_high = 0;
    struct profile p;
    low = low < 1 ? 1 : low;
    if ((rc = time_steps(g, low, &t_low, e)) < 0 || (rc = time_steps(g, high, &t_high, e)) < 0) {
        return err_prefix(e, "cannot calibrate the node");
    }
    profile_init(&p);
    p.k = high > low ? (t_high - t_low) / (high - low) : 0;
    if (p.k <
        0.2 * t_high / high) { /* a line through two points: noise must not make samples free */
        p.k = t_high / high;
    }
    p.a = t_high - p.k * high > 0 ? t_high - p.k * high : 0;
    p.count = 1;
    p.max_batch = limit_of(g);
    g->told = p;
    if (env->calibrated) {
        env->calibrated(env->step_ctx, &p);
    }
    env->telemetry->profile(env->telemetry->ctx, &p);
    return store_block(g, DEV_STATS, from->stats, from->n_stats, e);
}

/* The first minibatch did not fit: tells the coordinator the limit, so that the next attempt
 * respects it. */
static void tell_what_fits(struct network_engine *g, int first, struct err *why)
{
    const struct telemetry *t = g->base.env->telemetry;
    struct profile p;
    profile_init(&p);
    p.max_batch = model_find_limit(&g->model, first, why);
    if (p.max_batch > 0) {
        t->profile(t->ctx, &p);
    }
}

static int prepare_model(struct network_engine *g, const struct run_state *from, struct err *e)
{
    struct trainer_env *env = g->base.env;
    const struct jobspec *spec = env->spec;
    int rc = model_init(&g->model, env->dev, spec, !env->virtual_time, e);
    const struct strategy_ops *ops = strategy_find(spec->strategy.type);
    g->base.replica = &g->model.replica;
    g->model.replica.alone = ops && ops->alone && ops->alone(env->comm);
    if (rc == 0 && g->model.replica.alone && env->dev->ops->fused) {
        log_info("trainer", "the device makes a step in one", "strategy=%s",
                 catalog_get(spec->strategy.type)->name);
    }
    if (rc < 0) {
        return rc;
    }
    return load_start(g, from, e);
}

static int prepare(struct engine *base, const struct run_state *from, struct err *e)
{
    struct network_engine *g = (struct network_engine *)base;
    struct trainer_env *env = base->env;
    const struct jobspec *spec = env->spec;
    int first = room_for(g, env->first_sizes[env->comm->rank]), rc;
    if ((rc = dataset_check(env->data, &spec->data, &spec->network, e)) < 0 ||
        (rc = prepare_model(g, from, e)) < 0 ||
        (rc = loader_start(&g->loader, env->data, &spec->data, spec->seed, first,
                           !env->virtual_time, e)) < 0) {
        return rc;
    }
    if (!model_program(&g->model, first, e)) {
        if (e->code == ERR_MEMORY) {
            tell_what_fits(g, first, e);
        }
        return -(int)e->code;
    }
    if ((rc = loader_keep(&g->loader, env->dev, e)) < 0) {
        return rc;
    }
    if (rc == KEPT_BY_HOST) {
        loader_feed(&g->loader, env->dev);
    }
    return env->virtual_time ? 0 : calibrate(g, from, e);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool ready(struct engine *base, int batch)
{
    struct network_engine *g = (struct network_engine *)base;
    return model_ready(&g->model, batch > 0 ? room_for(g, batch) : batch);
}

/* A minibatch turned out not to fit. The balancer must know, or it waits for it for ever. */
static void tell_limit(struct network_engine *g)
{
    const struct telemetry *t = g->base.env->telemetry;
    int limit = g->told.count > 0 ? limit_of(g) : 0;
    if (limit != g->told.max_batch && limit > 0) {
        g->told.max_batch = limit;
        t->profile(t->ctx, &g->told);
    }
}

static void tell_tuning(const struct network_engine *g)
{
    const struct telemetry *to = g->base.env->telemetry;
    json_t *tuning = to->tuned ? dev_tuning(g->base.env->dev) : NULL;
    if (tuning) {
        to->tuned(to->ctx, tuning);
    }
}

static int load(struct engine *base, const struct work *w, struct err *e)
{
    struct network_engine *g = (struct network_engine *)base;
    memset(&g->in, 0, sizeof(g->in));
    int rc = w->slice.count > 0 ? loader_get(&g->loader, &w->slice, &g->in, e) : 0;
    loader_hint(&g->loader, &w->hint);
    if (rc < 0) {
        return rc;
    }
    int room = room_for(g, w->batch);
    room = room < w->slice.count ? (int)w->slice.count : room;
    if (!(g->program = model_program(&g->model, room, e))) {
        return -(int)e->code;
    }
    const struct dev_program_head *head = (const struct dev_program_head *)g->program;
    base->buckets = head->buckets;
    base->n_buckets = head->n_buckets;
    model_ready(&g->model, w->next_batch > 0 ? room_for(g, w->next_batch) : 0);
    tell_limit(g);
    tell_tuning(g);
    return 0;
}

/* A rank without samples in this step still takes part in the exchange, with zero gradients. */
static int no_samples(struct network_engine *g, dev_mark_fn *mark, void *ctx, struct err *e)
{
    struct dev_replica *r = &g->model.replica;
    memset(r->host[DEV_GRADS], 0, r->count[DEV_GRADS] * sizeof(float));
    int rc = r->dev->ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e);
    for (int b = 0; rc >= 0 && b < g->base.n_buckets; b++) {
        mark(ctx, b);
    }
    return rc;
}

/* Predicted numbers are neither correct nor false: unknown. */
static int64_t correct_of(const struct network_engine *g, const struct dev_result *r)
{
    return g->base.env->spec->network.loss == LOSS_MSE ? -1 : r->correct;
}

static int compute(struct engine *base, struct work *w, struct dev_result *out, dev_mark_fn *mark,
                   void *ctx, struct err *e)
{
    struct network_engine *g = (struct network_engine *)base;
    const struct device_ops *ops = base->env->dev->ops;
    if (w->slice.count == 0) {
        return no_samples(g, mark, ctx, e);
    }
    w->updated = g->model.replica.alone && ops->fused;
    int rc = w->updated ? dev_step(g->program, &g->in, w->learning_rate, 1.0, out, e)
                        : ops->compute(g->program, &g->in, out, NULL, mark, ctx, e);
    out->correct = correct_of(g, out);
    comm_pace(base->env->comm, 1.0, (int)w->slice.count);
    return rc;
}

static int evaluate(struct engine *base, struct work *w, struct dev_result *sum, struct err *e)
{
    struct network_engine *g = (struct network_engine *)base;
    const struct telemetry *t = base->env->telemetry;
    int chunk = model_largest_program(&g->model);
    struct dev_program *p = model_program(&g->model, chunk, e);
    int rc = p ? 0 : -(int)e->code;
    for (int64_t done = 0; rc >= 0 && done < w->eval_count; done += chunk) {
        int64_t n = w->eval_count - done < chunk ? w->eval_count - done : chunk;
        struct dev_input in = {0};
        struct dev_result r = {0};
        rc = loader_get_test(&g->loader, w->eval_first + done, n, &in, e);
        int64_t rest = w->eval_count - done - n;
        loader_hint_test(&g->loader, w->eval_first + done + n, rest < chunk ? rest : chunk);
        if (rc >= 0) {
            rc = base->env->dev->ops->compute(p, &in, &r, NULL, no_mark, NULL, e);
        }
        sum->loss += r.loss;
        sum->correct += correct_of(g, &r);
        sum->finite = sum->finite && r.finite;
        t->phase(t->ctx,
                 PHASE_EVALUATE); /* shows progress: evaluation of a large test set takes long */
    }
    return rc;
}

static void release(struct engine *base)
{
    struct network_engine *g = (struct network_engine *)base;
    loader_stop(&g->loader);
    model_release(&g->model);
    free(g);
}

static const struct engine_ops network_ops = {
    .prepare = prepare,
    .ready = ready,
    .load = load,
    .compute = compute,
    .evaluate = evaluate,
    .free = release,
};

struct engine *engine_of_network(struct trainer_env *env, struct err *e)
{
    struct network_engine *g = calloc(1, sizeof(*g));
    if (!g) {
        err_set(e, ERR_MEMORY, "cannot start the trainer: memory ran out");
        return NULL;
    }
    g->base.ops = &network_ops;
    g->base.env = env;
    g->base.test_samples = env->data->test.samples;
    return &g->base;
}

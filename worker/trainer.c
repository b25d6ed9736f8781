/* The trainer: one worker rank from its start to its end, the same over MPI and on the virtual
 * clock.
 *
 *     receive start ─► prepare ─► strategy start ─► ┌ next ─► load ─► compute ─► on_gradients ┐
 *                                                   └────────────────────◄─────────────────────┘
 *
 * The strategy decides which samples, how many, when to evaluate and when to end. An engine
 * (worker/engine.h) computes: a network of ours on a device, or a user's own program. Buckets of
 * gradients leave while the engine still computes the rest. Time spent computing is measured here,
 * up to the last gradient and without the time spent handing buckets over: under a barrier all
 * steps take equally long, and only this figure shows which rank is slow (docs/semantics.md#time).
 * Nothing is allocated in a step.
 */
#include "worker/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "worker/engine.h"
#include "worker/layer_norms.h"
#include "worker/start.h"

struct trainer {
    struct trainer_env *env;
    struct rank_env rank;
    struct start *start; /* NULL once the strategy has begun: its blocks are copies by then */
    struct engine *engine;
    struct strategy *strategy;
    struct layer_norms *norms; /* NULL: this run does not measure them */
    uint8_t *decay;
    int32_t *mean_of;
    int64_t local_step;
    bool left; /* a user's program has: no step comes, though the strategy has some */
    /* of the step under way */
    const struct work *work;
    double handing;        /* seconds spent in on_bucket, and in measuring what goes there */
    double load_seconds;   /* until the engine had its data */
    struct err unmeasured; /* why a bucket's gradients could not be read */
};

/* ---- what the strategy may ask --------------------------------------------------------------- */

/* Strategies know how long a rank took for its minibatch; what of it was loading data is ours. */
static void tell_row(void *ctx, const struct row *row)
{
    struct trainer *t = ctx;
    struct telemetry *to = t->env->telemetry;
    struct row full = *row;
    double within = fmin(t->engine->loading, row->compute_seconds);
    full.compute_seconds -= (float)within;
    full.load_seconds = (float)(t->load_seconds + within);
    full.exchange_seconds += (float)t->handing;
    to->row(to->ctx, &full);
    layer_norms_tell(t->norms, row, to);
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

static int ask_lost(void *ctx, int *out)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    return t->lost(t->ctx, out);
}

static int ask_seats(void *ctx, int *out)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    return t->seats(t->ctx, out);
}

static void tell_undone(void *ctx, int staleness, int64_t steps, int64_t samples)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->undone(t->ctx, staleness, steps, samples);
}

static bool is_ready(void *ctx, int batch)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->ready(g, batch);
}

static void set_phase(struct trainer *t, enum phase p)
{
    t->env->telemetry->phase(t->env->telemetry->ctx, p);
}

static void set_aside(void *ctx, bool on)
{
    set_phase(ctx, on ? PHASE_CHECKPOINT : PHASE_EXCHANGE);
}

static int own_state(void *ctx, struct own_state *out, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->own_state(g, out, e);
}

static int give(void *ctx, struct own_state *out, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->give(g, out, e);
}

static int resume(void *ctx, struct work *w, const struct own_state *state, struct dev_result *out,
                  double *compute_s, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->resume(g, w, state, out, compute_s, e);
}

static int take(void *ctx, const struct own_state *state, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->take(g, state, e);
}

static int enter(void *ctx, const struct entrance *at, const struct own_state *state, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->enter(g, at, state, e);
}

static bool mark(void *ctx, float *out)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->mark(g, out);
}

static int differs(void *ctx, size_t mark, double off, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->differs(g, mark, off, e);
}

static void parted(void *ctx, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    if (g->ops->parted) {
        g->ops->parted(g, e);
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

static int begin_start(struct trainer *t, struct err *e)
{
    struct trainer_env *env = t->env;
    if (env->join) {
        return start_fresh(t->start, env, e);
    }
    int rc = env->virtual_time ? 0 : start_compare_data(env, env->data->digest, e);
    return rc < 0 ? rc : start_receive(t->start, env, e);
}

static int prepare(struct trainer *t, struct err *e)
{
    struct trainer_env *env = t->env;
    const struct network *net = &env->spec->network;
    int rc;
    set_phase(t, PHASE_LOAD);
    if ((rc = begin_start(t, e)) < 0) {
        return rc;
    }
    set_phase(t, PHASE_PREPARE);
    if ((rc = t->engine->ops->prepare(t->engine, &t->start->from.state, e)) < 0) {
        return rc;
    }
    if (env->telemetry->norms && !(t->norms = layer_norms_new(t->engine, e))) {
        return -(int)e->code;
    }
    t->decay = start_decay(net, e);
    t->mean_of = start_mean_of(net, e);
    if (!t->decay || !t->mean_of) {
        return -ERR_MEMORY;
    }
    return env->join ? start_join(t->start, env, &t->local_step, e) : 0;
}

/* A bucket that the device did not hand out must be neither missing nor old in a sum. */
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

/* What the engine asks for: see engine.h. */
static int sum_further(void *ctx, double weight, enum further_pass how, struct err *e)
{
    struct trainer *t = ctx;
    const struct strategy_ops *ops = t->strategy->ops;
    struct engine *g = t->engine;
    struct work w = {.action = DO_TRAIN,
                     .weight = weight,
                     .voided = how == PASS_FAILED,
                     .further = true,
                     .absent = how == PASS_ABSENT};
    if (!ops->on_further) {
        err_set(e, ERR_UNSUPPORTED,
                "one more backward pass cannot join the step's gradients, which '%s' has taken",
                catalog_get(ops->id)->name);
        err_hint(e, "add the losses and make one backward pass, or take the strategy sync");
        return -ERR_UNSUPPORTED;
    }
    for (int b = 0; b < g->n_buckets; b++) {
        ops->on_bucket(t->strategy, &w, &g->buckets[b], b, g->n_buckets);
    }
    int rc = check_handed(t, e);
    return rc < 0 ? rc : ops->on_further(t->strategy, &w, e);
}

static int ask_any(void *ctx, bool mine, struct err *e)
{
    struct trainer *t = ctx;
    return t->strategy->ops->any(t->strategy, mine, e);
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
    start_rank_env(&t->rank, t->env, t->start, t->env->data->train.samples, t->engine->test_samples,
                   t->decay, t->mean_of);
    t->rank.replica = t->engine->replica;
    t->rank.ahead = t->engine->ahead;
    t->rank.weighed = t->engine->weighed;
    t->rank.sums = t->engine->sums;
    t->rank.open = t->engine->open;
    t->rank.marks = t->engine->marks;
    t->rank.mark = mark;
    t->rank.differs = differs;
    t->rank.parted = parted;
    t->rank.wants_sure = t->engine->wants_sure;
    t->rank.ctx = t;
    t->rank.row = tell_row;
    t->rank.evaluated = tell_evaluated;
    t->rank.control = ask_control;
    t->rank.ready = is_ready;
    t->rank.aside = set_aside;
    t->rank.own_state = own_state;
    t->rank.local_step = t->local_step;
    if (t->env->outlives_worker) {
        t->rank.lost = ask_lost;
        t->rank.undone = tell_undone;
    }
    if (t->env->takes_back) {
        t->rank.seats = ask_seats;
    }
    t->rank.comes_back = t->env->join != NULL;
    if (t->engine->ops->resume) {
        t->rank.give = give;
        t->rank.resume = resume;
        t->rank.take = take;
        t->rank.enter = enter;
    }
    if (t->start->restored && t->env->telemetry->restored) {
        t->env->telemetry->restored(t->env->telemetry->ctx, state);
    }
    t->engine->job_start = t->rank.job_start;
    t->engine->further = sum_further;
    t->engine->any = ops->any ? ask_any : NULL;
    t->engine->further_ctx = t;
    t->strategy = ops->start(&t->rank, state, e);
    free_start(t);
    if (t->strategy && t->env->join) {
        t->env->joined(t->env->step_ctx);
    }
    return t->strategy ? 0 : -(int)e->code;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void hand_over(void *ctx, int bucket)
{
    struct trainer *t = ctx;
    const struct dev_bucket *b = &t->engine->buckets[bucket];
    comm_pace(t->env->comm, b->work_done, (int)t->work->slice.count);
    double begin = comm_now(t->env->comm);
    if (t->norms && t->unmeasured.code == ERR_NONE) {
        layer_norms_bucket(t->norms, b, &t->unmeasured);
    }
    t->strategy->ops->on_bucket(t->strategy, t->work, b, bucket, t->engine->n_buckets);
    t->handing += comm_now(t->env->comm) - begin;
}

static int check_finite(const struct trainer *t, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    if (r->finite) {
        return 0;
    }
    err_set(e, ERR_DATA,
            "the loss became NaN or infinite: step %lld of worker %d, epoch %lld, minibatch %lld",
            (long long)t->local_step, t->env->comm->rank, (long long)w->slice.epoch,
            (long long)w->slice.count);
    err_hint(e, "a smaller learning rate, or gradient clipping");
    return -ERR_DATA;
}

/* A user's program evaluates when it likes; under a server that is told beside the gradients. */
static int tell_measured(struct trainer *t, bool last, struct err *e)
{
    const struct engine_ops *ops = t->engine->ops;
    struct dev_result sum = {.finite = true};
    struct work w = {.action = DO_EVALUATE};
    int rc = ops->measured ? ops->measured(t->engine, last, &sum, &w.eval_count, e) : 0;
    return rc < 0 || w.eval_count == 0 || !t->rank.measures
               ? rc
               : t->strategy->ops->on_evaluated(t->strategy, &w, &sum, e);
}

/* Is this the lowest rank that is left? */
static bool is_first(struct trainer *t)
{
    int lost[SPEC_WORKERS], rank = t->env->comm->rank, below = 0,
                            n = rank > 0 && t->rank.lost ? ask_lost(t, lost) : 0;
    for (int i = 0; i < n; i++) {
        below += lost[i] < rank;
    }
    return below == rank;
}

static int check_measured(struct trainer *t, const struct dev_result *r, struct err *e)
{
    if (t->unmeasured.code != ERR_NONE) {
        *e = t->unmeasured;
        return -(int)e->code;
    }
    return t->norms && !r->absent ? layer_norms_end(t->norms, e) : 0;
}

/* Computes the slice that is loaded, and sums. */
static int make_step(struct trainer *t, struct work *w, struct err *e)
{
    struct trainer_env *env = t->env;
    struct engine *g = t->engine;
    struct dev_result result = {.finite = true};
    t->handing = 0;
    g->idle = g->loading = 0;
    set_phase(t, PHASE_COMPUTE);
    double begin = comm_now(env->comm);
    if (env->step_begin) {
        env->step_begin(env->step_ctx);
    }
    int rc = g->ops->compute(g, w, &result, hand_over, t, e);
    double seconds = comm_now(env->comm) - begin - t->handing - g->idle;
    if (rc < 0 || (rc = check_handed(t, e)) < 0 || (rc = check_finite(t, w, &result, e)) < 0 ||
        (rc = check_measured(t, &result, e)) < 0 || (rc = tell_measured(t, false, e)) < 0) {
        return rc;
    }
    /* in lockstep all ranks' programs do: those of a run that was restarted from its very end */
    t->left = result.leaves && !result.early && !t->strategy->ops->server;
    if (t->left) {
        return 0;
    }
    set_phase(t, PHASE_EXCHANGE);
    return t->strategy->ops->on_gradients(t->strategy, w, &result, seconds, e);
}

static int train(struct trainer *t, struct work *w, struct err *e)
{
    struct trainer_env *env = t->env;
    struct engine *g = t->engine;
    int rc;
    set_phase(t, PHASE_LOAD);
    double asked = comm_now(env->comm);
    if ((rc = g->ops->load(g, w, e)) < 0) {
        return rc;
    }
    t->load_seconds = comm_now(env->comm) - asked;
    t->work = w;
    t->local_step++;
    if (t->norms) {
        layer_norms_begin(t->norms, t->local_step, w->slice.count > 0 && is_first(t));
    }
    do {
        t->strategy->once_more = false;
        rc = make_step(t, w, e);
    } while (rc >= 0 && t->strategy->once_more);
    return rc;
}

static int evaluate(struct trainer *t, struct work *w, struct err *e)
{
    struct dev_result sum = {.finite = true};
    set_phase(t, PHASE_EVALUATE);
    int rc = t->engine->ops->evaluate(t->engine, w, &sum, e);
    return rc < 0 ? rc : t->strategy->ops->on_evaluated(t->strategy, w, &sum, e);
}

static enum run_outcome outcome_of(enum action last)
{
    return last == DO_END ? RUN_ENDED : last == DO_PAUSE ? RUN_PAUSED : RUN_STOPPED;
}

static int finish(struct trainer *t, enum action why, struct err *e)
{
    const struct engine_ops *ops = t->engine->ops;
    int rc;
    if ((rc = tell_measured(t, true, e)) < 0 ||
        (rc = t->strategy->ops->finish(t->strategy, e)) < 0 ||
        (ops->end && (rc = ops->end(t->engine, why, e)) < 0)) {
        return rc;
    }
    return (int)outcome_of(why);
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
            if (rc >= 0 && t->left) {
                return finish(t, DO_END, e);
            }
            break;
        case DO_EVALUATE:
            rc = evaluate(t, &w, e);
            break;
        case DO_END:
        case DO_PAUSE:
        case DO_STOP:
            return finish(t, w.action, e);
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
    t->engine = env->engine ? env->engine : engine_of_network(env, e);
    int rc = t->engine ? prepare(t, e) : -(int)e->code;
    if (rc >= 0 && (rc = start_strategy(t, e)) >= 0) {
        rc = run(t, e);
    }
    set_phase(t, PHASE_DONE);
    if (rc < 0 && !env->virtual_time) {
        return rc; /* the communication thread may still use our blocks; the process ends, so
                      nothing is freed */
    }
    if (t->strategy) {
        t->strategy->ops->free(t->strategy);
    }
    layer_norms_free(t->norms);
    if (t->engine) {
        t->engine->ops->free(t->engine);
    }
    free_start(t);
    free(t->decay);
    free(t->mean_of);
    free(t);
    return rc;
}

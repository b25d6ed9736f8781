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
#include "worker/training/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    err_set(e, ERR_NOT_FINITE,
            "the loss became NaN or infinite: step %lld of worker %d, epoch %lld, minibatch %lld",
            (long long)t->local_step, t->env->comm->rank, (long long)w->slice.epoch,
            (long long)w->slice.count);
    err_hint(e, "a smaller learning rate, or gradient clipping");
    return -ERR_NOT_FINITE;
}

/* Tells each evaluation that a user's program made by itself; under a server they travel apart from
 * the gradients. */
static int tell_measured(struct trainer *t, bool last, struct err *e)
{
    const struct engine_ops *ops = t->engine->ops;
    struct dev_result sum = {.finite = true};
    struct work w = {.action = DO_EVALUATE};
    int rc = 0;
    while (ops->measured && (rc = ops->measured(t->engine, last, &sum, &w.eval_count, e)) >= 0 &&
           w.eval_count > 0) {
        rc = t->rank.measures ? t->strategy->ops->on_evaluated(t->strategy, &w, &sum, e) : 0;
        if (rc < 0) {
            return rc;
        }
        last = false; /* it has waited */
    }
    return rc;
}

bool trainer_is_first(struct trainer *t)
{
    int lost[SPEC_WORKERS], rank = t->env->comm->rank, below = 0,
                            n = rank > 0 && t->rank.lost ? t->rank.lost(t, lost) : 0;
    for (int i = 0; i < n; i++) {
        below += lost[i] < rank;
    }
    return below == rank;
}

void trainer_tell_logged(struct trainer *t)
{
    struct telemetry *to = t->env->telemetry;
    const struct logged_value *values;
    if (!t->stepped || !to->logged || !t->engine->ops->logged) {
        return;
    }
    int n = t->engine->ops->logged(t->engine, &values);
    bool first = n > 0 && trainer_is_first(t);
    for (int i = 0; i < n && first; i++) {
        struct logged_point p = t->at;
        snprintf(p.name, sizeof p.name, "%s", values[i].name);
        p.value = values[i].value;
        to->logged(to->ctx, &p);
    }
}

static int check_measured(struct trainer *t, const struct dev_result *r, struct err *e)
{
    if (t->unmeasured.code != ERR_NONE) {
        *e = t->unmeasured;
        return -(int)e->code;
    }
    return t->norms && !r->absent ? layer_norms_end(t->norms, e) : 0;
}

/* Computes the loaded slice, and sums. */
static int make_step(struct trainer *t, struct work *w, struct err *e)
{
    struct trainer_env *env = t->env;
    struct engine *g = t->engine;
    struct dev_result result = {.finite = true};
    t->handing = 0;
    g->idle = g->loading = 0;
    trainer_phase(t, PHASE_COMPUTE);
    double begin = comm_now(env->comm);
    if (env->step_begin) {
        env->step_begin(env->step_ctx);
    }
    int rc = g->ops->compute(g, w, &result, hand_over, t, e);
    double seconds = comm_now(env->comm) - begin - t->handing - g->idle;
    if (rc < 0 || (rc = hooks_check_handed(t, e)) < 0 ||
        (rc = check_finite(t, w, &result, e)) < 0 || (rc = check_measured(t, &result, e)) < 0 ||
        (rc = tell_measured(t, false, e)) < 0) {
        return rc;
    }
    /* in lockstep all ranks' programs do: those of a run that was restarted from its very end */
    t->left = result.leaves && !result.early && !t->strategy->ops->server;
    if (t->left) {
        return 0;
    }
    trainer_phase(t, PHASE_EXCHANGE);
    return t->strategy->ops->on_gradients(t->strategy, w, &result, seconds, e);
}

static int train(struct trainer *t, struct work *w, struct err *e)
{
    struct trainer_env *env = t->env;
    struct engine *g = t->engine;
    int rc;
    trainer_phase(t, PHASE_LOAD);
    double asked = comm_now(env->comm);
    if ((rc = g->ops->load(g, w, e)) < 0) {
        return rc;
    }
    t->load_seconds = comm_now(env->comm) - asked;
    t->work = w;
    t->local_step++;
    if (t->norms) {
        layer_norms_begin(t->norms, t->local_step, w->slice.count > 0 && trainer_is_first(t));
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
    trainer_phase(t, PHASE_EVALUATE);
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
        trainer_phase(t, PHASE_EXCHANGE);
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
    int rc = trainer_begin(t, e);
    if (rc >= 0) {
        rc = run(t, e);
    }
    trainer_tell_logged(t);
    trainer_phase(t, PHASE_DONE);
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
    trainer_free_start(t);
    free(t->decay);
    free(t->mean_of);
    free(t);
    return rc;
}

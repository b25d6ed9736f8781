/* How a training rank begins: it receives the state of the run, prepares its engine and starts the
 * strategy. */
#include "worker/training/parts.h"

#include <stdlib.h>

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
    trainer_phase(t, PHASE_LOAD);
    if ((rc = begin_start(t, e)) < 0) {
        return rc;
    }
    trainer_phase(t, PHASE_PREPARE);
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

void trainer_free_start(struct trainer *t)
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
    hooks_fill(t, ops);
    if (t->start->restored && t->env->telemetry->restored) {
        t->env->telemetry->restored(t->env->telemetry->ctx, state);
    }
    t->strategy = ops->start(&t->rank, state, e);
    trainer_free_start(t);
    if (t->strategy && t->env->join) {
        t->env->joined(t->env->step_ctx);
    }
    return t->strategy ? 0 : -(int)e->code;
}

int trainer_begin(struct trainer *t, struct err *e)
{
    t->engine = t->env->engine ? t->env->engine : engine_of_network(t->env, e);
    int rc = t->engine ? prepare(t, e) : -(int)e->code;
    return rc < 0 ? rc : start_strategy(t, e);
}

/* Evaluation by a server (docs/semantics.md#loss-evaluation-and-target): it takes a snapshot of the
 * weights at the boundary and hands out test slices until all are done. */
#include "worker/exchange/server/parts.h"

#include <stdlib.h>
#include <string.h>

int server_begin_evaluation(struct server *s, struct err *e)
{
    s->eval.due = false;
    if (s->env->test_samples == 0) {
        s->eval.last_version = s->env->keeps_own ? s->eval.last_version : s->updates.version;
        return 0;
    }
    updates_hold(&s->updates, &s->eval.snapshot, s->updates.now);
    memcpy(s->eval.stats, s->stats, s->n_stats * sizeof(float));
    s->eval.under_way = true;
    s->eval.next = s->eval.done = 0;
    s->eval.loss = s->eval.correct = 0;
    s->eval.step = s->updates.version;
    s->eval.applied = s->applied;
    s->eval.time = comm_now(s->env->comm) - s->env->job_start;
    return server_order(s, ORDER_SET_ASIDE, 0, e);
}

/* Is the last evaluation better than all before? Notes it as the best. */
static bool is_best(struct server *s)
{
    double score = strategy_score(s->eval.last_accuracy, s->eval.last_loss);
    bool best = score > s->eval.best;
    s->eval.best = best ? score : s->eval.best;
    return best;
}

static int end_evaluation(struct server *s, struct err *e)
{
    const struct rank_env *env = s->env;
    double n = (double)env->test_samples;
    s->eval.under_way = false;
    s->eval.last_version = s->eval.step;
    s->eval.last_applied = s->eval.applied;
    s->eval.last_loss = s->eval.loss / n;
    s->eval.last_accuracy = strategy_accuracy(s->eval.correct, n);
    s->eval.target_reached =
        s->eval.target_reached ||
        (env->spec->target_accuracy > 0 && s->eval.last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {
        .step = s->eval.step,
        .epoch = env->train_samples > 0 ? (double)s->eval.applied / (double)env->train_samples : 0,
        .time = s->eval.time,
        .loss = s->eval.last_loss,
        .accuracy = s->eval.last_accuracy,
        .samples = env->test_samples,
        .final = s->eval.target_reached ||
                 (s->eval.step == s->updates.version && server_nothing_left(s) && s->n_out == 0)};
    env->evaluated(env->ctx, &ev);
    return is_best(s) ? server_save(s, SAVE_BEST, e) : 0;
}

int server_evaluated(struct server *s, const struct push_head *push, struct err *e)
{
    struct client *k = &s->clients[push->rank];
    s->eval.loss += push->loss;
    s->eval.correct += (double)push->correct;
    s->eval.done += push->slice.count;
    server_set_evaluating(s, k, 0);
    k->reply.staleness = -1;
    return s->eval.done == s->env->test_samples ? end_evaluation(s, e) : 0;
}

/* Keeps the weights that were measured. A single server has exactly these; of several servers each
 * has its newest. */
static int keep_measured(struct server *s, const struct push_head *push, struct err *e)
{
    bool one = s->env->comm->servers == 1;
    updates_hold(&s->updates, &s->eval.snapshot,
                 one ? s->clients[push->rank].held : s->updates.now);
    memcpy(s->eval.stats, one ? s->clients[push->rank].stats : s->stats,
           s->n_stats * sizeof(float));
    int rc = server_order(s, ORDER_SET_ASIDE, 0, e);
    return rc < 0 ? rc : server_save(s, SAVE_BEST, e);
}

int server_measured(struct server *s, const struct push_head *push, struct err *e)
{
    const struct rank_env *env = s->env;
    double n = (double)push->slice.count;
    s->eval.last_version = push->version;
    s->eval.last_applied = s->applied;
    s->eval.last_loss = push->loss / n;
    s->eval.last_accuracy = strategy_accuracy((double)push->correct, n);
    s->eval.target_reached =
        s->eval.target_reached ||
        (env->spec->target_accuracy > 0 && s->eval.last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {.step = push->version,
                            .epoch = (double)s->applied / (double)env->train_samples,
                            .time = comm_now(env->comm) - env->job_start,
                            .loss = s->eval.last_loss,
                            .accuracy = s->eval.last_accuracy,
                            .samples = push->slice.count,
                            .final = s->eval.target_reached || s->outcome != RUN_GOES_ON};
    env->evaluated(env->ctx, &ev);
    return is_best(s) ? keep_measured(s, push, e) : 0;
}

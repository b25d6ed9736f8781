/* Evaluation by a server (docs/semantics.md#loss-evaluation-and-target): it takes a snapshot of the
 * weights at the boundary and hands out test slices until all are done. */
#include "worker/exchange/server/parts.h"

#include <stdlib.h>
#include <string.h>

int server_begin_evaluation(struct server *s, struct err *e)
{
    s->due = false;
    if (s->env->test_samples == 0) {
        s->evaluated_version = s->env->keeps_own ? s->evaluated_version : s->updates.version;
        return 0;
    }
    updates_hold(&s->updates, &s->snapshot, s->updates.now);
    memcpy(s->snapshot_stats, s->stats, s->n_stats * sizeof(float));
    s->evaluating = true;
    s->eval_next = s->eval_done = 0;
    s->eval_loss = s->eval_correct = 0;
    s->eval_step = s->updates.version;
    s->eval_applied = s->applied;
    s->eval_time = comm_now(s->env->comm) - s->env->job_start;
    return server_order(s, ORDER_SET_ASIDE, 0, e);
}

/* Whether the last evaluation is better than all before it, which makes it the best. */
static bool is_best(struct server *s)
{
    double score = strategy_score(s->last_accuracy, s->last_loss);
    bool best = score > s->best;
    s->best = best ? score : s->best;
    return best;
}

static int end_evaluation(struct server *s, struct err *e)
{
    const struct rank_env *env = s->env;
    double n = (double)env->test_samples;
    s->evaluating = false;
    s->evaluated_version = s->eval_step;
    s->evaluated_applied = s->eval_applied;
    s->last_loss = s->eval_loss / n;
    s->last_accuracy = strategy_accuracy(s->eval_correct, n);
    s->target_reached = s->target_reached || (env->spec->target_accuracy > 0 &&
                                              s->last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {
        .step = s->eval_step,
        .epoch = env->train_samples > 0 ? (double)s->eval_applied / (double)env->train_samples : 0,
        .time = s->eval_time,
        .loss = s->last_loss,
        .accuracy = s->last_accuracy,
        .samples = env->test_samples,
        .final = s->target_reached ||
                 (s->eval_step == s->updates.version && server_nothing_left(s) && s->n_out == 0)};
    env->evaluated(env->ctx, &ev);
    return is_best(s) ? server_save(s, SAVE_BEST, e) : 0;
}

int server_evaluated(struct server *s, const struct push_head *push, struct err *e)
{
    struct client *k = &s->clients[push->rank];
    s->eval_loss += push->loss;
    s->eval_correct += (double)push->correct;
    s->eval_done += push->slice.count;
    server_set_evaluating(s, k, 0);
    k->reply.staleness = -1;
    return s->eval_done == s->env->test_samples ? end_evaluation(s, e) : 0;
}

/* One server has the very weights that were measured; of several, each has its newest. */
static int keep_measured(struct server *s, const struct push_head *push, struct err *e)
{
    bool one = s->env->comm->servers == 1;
    updates_hold(&s->updates, &s->snapshot, one ? s->clients[push->rank].held : s->updates.now);
    memcpy(s->snapshot_stats, one ? s->clients[push->rank].stats : s->stats,
           s->n_stats * sizeof(float));
    int rc = server_order(s, ORDER_SET_ASIDE, 0, e);
    return rc < 0 ? rc : server_save(s, SAVE_BEST, e);
}

int server_measured(struct server *s, const struct push_head *push, struct err *e)
{
    const struct rank_env *env = s->env;
    double n = (double)push->slice.count;
    s->evaluated_version = push->version;
    s->evaluated_applied = s->applied;
    s->last_loss = push->loss / n;
    s->last_accuracy = strategy_accuracy((double)push->correct, n);
    s->target_reached = s->target_reached || (env->spec->target_accuracy > 0 &&
                                              s->last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {.step = push->version,
                            .epoch = (double)s->applied / (double)env->train_samples,
                            .time = comm_now(env->comm) - env->job_start,
                            .loss = s->last_loss,
                            .accuracy = s->last_accuracy,
                            .samples = push->slice.count,
                            .final = s->target_reached || s->outcome != RUN_GOES_ON};
    env->evaluated(env->ctx, &ev);
    return is_best(s) ? keep_measured(s, push, e) : 0;
}

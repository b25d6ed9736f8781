/* The server of server strategies (SEMANTICS.md 1, 3, 4, 5): it has the weights and the cursor,
 * takes gradients in the order of arrival (updates.c makes versions of them), and answers each with
 * the newest weights and the next slice.
 *
 *      pushes in order of arrival     A   B   A   C   A   B          four workers, c = 1: between a worker's pull and its
 *      version after it               1   2   3   4   5   6          push the others' updates come; C pulled version 0 and is
 *      staleness                      0   1   1   3   1   3          applied as the 4th: 3 versions late
 *
 * A slice is done when its gradient was applied; slices that are out are in every checkpoint and
 * are handed out again after a restart. There is no barrier at an epoch's end. At an evaluation's
 * boundary the weights are set aside and test slices are handed out before training slices, which
 * are kept for the evaluating workers, so that an evaluation changes nobody's samples. A worker for
 * whom there is nothing, or who has to wait by the strategy's policy, is parked: it gets no answer
 * until there is one. Several that are released at one moment are answered by rank.
 *
 * Here is the loop; what is handed out stands in server_slices.c, evaluation in server_eval.c,
 * start, end and states in server_state.c. */
#include "worker/exchange/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/moments.h"
#include "worker/exchange/server_parts.h"

/* ---- gradients ------------------------------------------------------------------------------- */

/* The slices of an update that was made are done. */
static void settle(struct server *s)
{
    for (int i = 0; i < s->n_grouped; i++) {
        s->applied += s->grouped[i].count;
        s->clients[s->grouped_by[i]].grouped = false;
    }
    s->n_grouped = 0;
    s->due = agenda_evaluate(&s->agenda, s->applied, s->updates.version) || s->due;
}

static int take_gradient(struct server *s, const struct push_head *push, const float *g,
                         struct err *e)
{
    struct rank_env *env = s->env;
    struct client *k = &s->clients[push->rank];
    int64_t tau = s->updates.version - push->version;
    if (!isfinite(push->loss)) {
        return err_set(e, ERR_DATA, "the loss is not finite any more: worker %d at version %lld",
                       push->rank, (long long)push->version);
    }
    if (s->n_stats > 0) {
        double share = (double)push->slice.count / env->spec->batching.global_batch;
        moments_blend(s->stats, s->pushed_stats, env->mean_of, s->n_stats,
                      share < 1 ? (float)share : 1);
    }
    struct order further = {.kind = ORDER_APPLY, .rank = push->rank, .tau = tau, .push = *push};
    int rc = shard_order(env->comm, &further, e);
    if (rc < 0) {
        return rc;
    }
    bool updated = updates_add(&s->updates, g, k->held->w, &push->slice, push->learning_rate, tau);
    BUG_ON(s->n_grouped == SPEC_WORKERS);
    s->grouped_by[s->n_grouped] = push->rank;
    s->grouped[s->n_grouped++] = push->slice;
    k->grouped = true;
    server_set_out(s, k, NULL);
    k->pushes++;
    s->taken++;
    s->least = -1;
    staleness_add(&k->staleness, (int)tau, (int)push->slice.count);
    if (updated) {
        settle(s);
    }
    k->reply.staleness = (int32_t)tau;
    k->reply.strategy_value = s->updates.stretch;
    k->reply.step = s->updates.version + !updated;
    k->reply.epoch = env->train_samples > 0 ? (double)s->applied / (double)env->train_samples : 0;
    k->reply.time = comm_now(env->comm) - env->job_start;
    return 0;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* After every push: is something due, or is it over? */
static int decide(struct server *s, struct err *e)
{
    bool asked = s->control.pause || s->control.stop, idle = s->n_out == 0 && s->n_evaluating == 0;
    int rc = 0;
    if (asked && idle) {
        s->outcome = s->control.stop ? 2 : 1;
        rc = server_save(s, s->control.stop ? (int)SAVE_CHECKPOINT : (int)SAVE_PAUSE, e);
    } else if (!asked && !s->evaluating) {
        bool over = server_nothing_left(s) && idle && !server_slices_kept(s);
        if (over && updates_flush(&s->updates)) {
            settle(s); /* no other gradient will come to complete the group */
            rc = server_order(s, ORDER_FLUSH, 0, e);
        }
        if (rc < 0) {
            return rc;
        }
        if (over && (s->target_reached || s->evaluated_version == s->updates.version)) {
            /* of a target that was reached the weights are the best artifact's; gradients that were
             * out then came after it */
            s->outcome = 0;
            rc = server_save(s, SAVE_FINAL, e);
        } else if (over || s->due) {
            rc = server_begin_evaluation(s, e);
            rc = rc < 0 || s->evaluating || !over
                     ? rc
                     : decide(s, e); /* there is no test set: nothing to wait for */
        }
    }
    if (rc >= 0 && s->outcome < 0 &&
        (s->control.checkpoint ||
         agenda_checkpoint(&s->agenda, s->updates.version, comm_now(s->env->comm)))) {
        rc = server_save(s, SAVE_CHECKPOINT, e);
    }
    return rc;
}

/* Who speaks next: whoever comes, unless the order was given. */
static int whose_turn(const struct server *s, int *rank, struct err *e)
{
    const json_t *next = json_array_get(s->env->order, (size_t)s->taken);
    *rank = next ? (int)json_integer_value(next) : TRANSPORT_ANY;
    if (next && (*rank < 0 || *rank >= s->env->comm->workers || s->clients[*rank].parked)) {
        return err_set(e, ERR_INVALID,
                       "gradient %lld cannot be rank %d's, as the order has it: it computes none",
                       (long long)s->taken + 1, *rank);
    }
    return 0;
}

/* `g`: where the gradient is, if it is one. */
static int receive(struct server *s, struct push_head *push, const float **g, struct err *e)
{
    struct comm *c = s->env->comm;
    int from;
    struct message head, gradient, stats;
    char none, no_head;
    if (whose_turn(s, &from, e) < 0) {
        return -ERR_INVALID;
    }
    message_recv(&head, c, from, TAG_PUSH, push, sizeof *push, NULL, 0);
    int rc = comm_wait(c, &head.op, e);
    if (rc >= 0 && (push->rank < 0 || push->rank >= c->workers)) {
        return err_set(e, ERR_PEER, "a push came from rank %d, which is no worker", push->rank);
    }
    if (rc >= 0 && push->kind == PUSH_GRADIENT) {
        message_recv(&gradient, c, push->rank, TAG_GRADIENT, &none, 1, s->g, s->n);
        if (s->n_stats > 0) {
            message_recv(&stats, c, push->rank, TAG_STATS, &no_head, 1, s->pushed_stats,
                         s->n_stats);
        }
        rc = comm_wait(c, &gradient.op, e);
        *g = gradient.body;
        int one = s->n_stats > 0 ? comm_wait(c, &stats.op, rc < 0 ? NULL : e) : 0;
        rc = rc < 0 ? rc : one;
    }
    return rc;
}

static int answer(struct server *s, const struct push_head *push, const float *g, struct err *e)
{
    int rc =
        push->kind == PUSH_GRADIENT ? take_gradient(s, push, g, e) : server_evaluated(s, push, e);
    server_park(s, push->rank);
    s->env->control(s->env->ctx, &s->control);
    rc = rc < 0 ? rc : decide(s, e);
    return rc < 0 ? rc : server_serve_parked(s, e);
}

/* The last answers must have left before the buffers go. */
static int flush(struct server *s, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < s->env->comm->workers && rc >= 0; i++) {
        rc = s->clients[i].sending ? comm_wait(s->env->comm, &s->clients[i].head.op, e) : 0;
    }
    return rc;
}

/* The share of the last second or so that went into answers. */
static void tell_busy(struct server *s, double waited, double worked)
{
    double all = waited + worked, keep = exp(-all);
    s->busy = all > 0 ? keep * s->busy + (1 - keep) * worked / all : s->busy;
    if (s->env->served) {
        s->env->served(s->env->ctx, s->updates.version, s->busy);
    }
}

int server_serve(const struct server_policy *policy, struct rank_env *env,
                 const struct run_state *from, struct err *e)
{
    if (env->comm->rank > env->comm->workers) {
        return shard_serve(policy, env, from, e);
    }
    struct server *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(e, ERR_MEMORY, "cannot serve: memory ran out");
    }
    s->policy = policy;
    double deadline = env->comm->deadline;
    env->comm->deadline = 0; /* the next push may be long in coming; heartbeats tell who is alive */
    int rc = server_init(s, env, from, e);
    if (rc >= 0) {
        env->control(env->ctx, &s->control);
        rc = decide(s, e); /* a restart may find that everything was done */
    }
    for (int i = 0; rc >= 0 && i < env->comm->workers; i++) {
        s->clients[i].reply.staleness = -1;
        server_park(s, i);
    }
    rc = rc < 0 ? rc : server_serve_parked(s, e);
    struct push_head push;
    const float *g = s->g;
    while (rc >= 0 && s->n_ended < env->comm->workers) {
        double before = comm_now(env->comm);
        rc = receive(s, &push, &g, e);
        double came = comm_now(env->comm);
        rc = rc < 0 ? rc : answer(s, &push, g, e);
        tell_busy(s, came - before, comm_now(env->comm) - came);
    }
    int outcome = s->outcome;
    rc = rc < 0 ? rc : flush(s, e);
    rc = rc < 0 ? rc : server_order(s, ORDER_END, outcome, e);
    env->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(env->comm); /* answers that are on their way lie in what goes now */
    }
    server_release(s);
    free(s);
    return rc < 0 ? rc : outcome;
}

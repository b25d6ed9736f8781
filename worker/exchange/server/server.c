/* The server of server strategies (docs/semantics.md): it has the weights and the cursor, takes
 * gradients in the order of arrival (updates.c makes versions of them), and answers each with the
 * newest weights and the next slice.
 *
 *      pushes in order of arrival     A   B   A   C   A   B          four workers, c = 1: between
 *      version after it               1   2   3   4   5   6          a worker's pull and its push
 *      staleness                      0   1   1   3   1   3          the others' updates come
 *
 * C pulled version 0 and is applied as the 4th: 3 versions late.
 *
 * A slice is done when its gradient was applied; slices that are out are in every checkpoint and
 * are handed out again after a restart. There is no barrier at an epoch's end. At an evaluation's
 * boundary the server takes a snapshot of the weights and hands out test slices before training
 * slices, which are kept for the evaluating workers, so that an evaluation changes no worker's
 * samples. A worker for which there is no slice, or which the strategy's policy makes wait, is
 * parked: it gets no answer until there is one. Workers that are released together are answered by
 * rank.
 *
 * This file has the loop. slices.c decides what is handed out, lost.c goes on without workers that
 * died, seats.c takes workers back, evaluation.c evaluates, and server_state.c has start, end and
 * states. */
#include "worker/exchange/server/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/norm_stats.h"
#include "worker/exchange/server/parts.h"

/* ---- gradients ------------------------------------------------------------------------------- */

/* Marks the slices of a completed update as done. Only now their gradients count: a checkpoint in
 * the middle of a group lists its slices among those to be done again. */
static void settle(struct server *s)
{
    for (int i = 0; i < s->group.n; i++) {
        struct client *k = &s->clients[s->group.by[i]];
        s->applied += s->group.slices[i].count;
        staleness_add(&k->staleness, s->group.late[i], (int)s->group.slices[i].count);
        k->grouped = false;
    }
    s->group.n = 0;
    s->eval.due = agenda_evaluate(&s->agenda, s->applied, s->updates.version) || s->eval.due;
}

static int take_gradient(struct server *s, const struct push_head *push, const float *g,
                         struct err *e)
{
    struct rank_env *env = s->env;
    struct client *k = &s->clients[push->rank];
    int64_t tau = s->updates.version - push->version;
    if (!isfinite(push->loss)) {
        return err_set(e, ERR_NOT_FINITE,
                       "the loss became NaN or infinite: worker %d at version %lld", push->rank,
                       (long long)push->version);
    }
    if (s->n_stats > 0) {
        double share = (double)push->slice.count / env->spec->batching.global_batch;
        norm_stats_blend(s->stats, s->arrival->stats_of, env->mean_of, s->n_stats,
                         share < 1 ? (float)share : 1);
    }
    struct order further = {.kind = ORDER_APPLY, .rank = push->rank, .tau = tau, .push = *push};
    int rc = shard_order(env->comm, &further, e);
    if (rc < 0) {
        return rc;
    }
    bool updated = updates_add(&s->updates, g, k->held->w, push->weight, push->slice.count,
                               push->learning_rate, tau);
    BUG_ON(s->group.n == SPEC_WORKERS);
    s->group.by[s->group.n] = push->rank;
    s->group.late[s->group.n] = (int)tau;
    s->group.slices[s->group.n++] = push->slice;
    k->grouped = true;
    server_set_out(s, k, NULL);
    k->pushes++;
    s->taken++;
    s->least = -1;
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

/* Slices of a lost worker that no other program may take any more: those are for its next process.
 */
static int end_without_slices(struct server *s, struct err *e)
{
    if (server_expects(s)) {
        return 0;
    }
    return err_set(e, ERR_PEER,
                   "a worker was lost with slices of epoch %lld, and every other program knows "
                   "by now that no slice follows: they cannot come again in this attempt",
                   (long long)s->redo[0].epoch);
}

/* The job is over: every gradient is applied, and the weights are evaluated if that is possible. */
static int end_job(struct server *s, struct err *e)
{
    int rc;
    if (s->n_redo > 0 && s->env->n_lost > 0 && !s->quits && !s->eval.target_reached) {
        return end_without_slices(s, e);
    }
    if (updates_flush(&s->updates)) {
        settle(s); /* no other gradient will come to complete the group */
        if ((rc = server_order(s, ORDER_FLUSH, 0, e)) < 0) {
            return rc;
        }
    }
    /* if a target was reached, the weights are the best artifact's: gradients that were out then
     * came after it */
    if (!s->eval.target_reached && s->eval.last_version != s->updates.version) {
        if ((rc = server_begin_evaluation(s, e)) < 0 || s->eval.under_way) {
            return rc;
        }
    }
    s->outcome = RUN_ENDED;
    return server_save_last(s, SAVE_FINAL, e);
}

/* The job was asked to stop or to pause, and no gradient is outstanding. */
static int leave_job(struct server *s, struct err *e)
{
    bool stop = s->control.stop;
    s->outcome = stop ? RUN_STOPPED : RUN_PAUSED;
    return server_save_last(s, stop ? SAVE_CHECKPOINT : SAVE_PAUSE, e);
}

static bool checkpoint_due(struct server *s)
{
    return s->outcome == RUN_GOES_ON &&
           (s->control.checkpoint ||
            agenda_checkpoint(&s->agenda, s->updates.version, comm_now(s->env->comm)));
}

/* After every push: starts what is due, and ends a job that is over. */
static int decide(struct server *s, struct err *e)
{
    bool asked = s->control.pause || s->control.stop, idle = s->n_out == 0 && s->eval.n_out == 0;
    bool over = server_nothing_left(s) && idle && !server_slices_kept(s);
    int rc = 0;
    if (asked && idle) {
        rc = leave_job(s, e);
    } else if (!asked && !s->eval.under_way && over) {
        rc = end_job(s, e);
    } else if (!asked && !s->eval.under_way && s->eval.due) {
        rc = server_begin_evaluation(s, e);
    }
    return rc >= 0 && checkpoint_due(s) ? server_checkpoint(s, e) : rc;
}

/* The rank whose push is next: any, unless the order is prescribed. */
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

/* Receives a gradient. COMM_DONE; COMM_UNDER_WAY: the worker died in the middle of it; or
 * negative. */
static int receive_gradient(struct server *s, int rank, struct err *e)
{
    struct comm *c = s->env->comm;
    struct arrival *a = s->arrival;
    message_recv(&a->gradient, c, rank, TAG_GRADIENT, &a->none, 1, a->g, s->n);
    if (s->n_stats > 0) {
        message_recv(&a->stats, c, rank, TAG_STATS, &a->no_head, 1, a->stats_of, s->n_stats);
    }
    int rc = server_wait(s, &a->gradient.op, rank, e);
    if (rc == COMM_DONE && s->n_stats > 0) {
        rc = server_wait(s, &a->stats.op, rank, e);
    }
    return rc;
}

/* Waits for the next push's header: COMM_DONE; COMM_UNDER_WAY: a worker was lost first; or
 * negative. */
static int receive_head(struct server *s, struct err *e)
{
    struct comm *c = s->env->comm;
    struct arrival *a = s->arrival;
    int from, rc = whose_turn(s, &from, e);
    if (rc < 0) {
        return rc;
    }
    if (!a->awaited) {
        message_recv(&a->head, c, from, TAG_PUSH, &a->push, sizeof a->push, NULL, 0);
        a->awaited = true;
    }
    if ((rc = server_wait(s, &a->head.op, TRANSPORT_ANY, e)) != COMM_DONE) {
        return rc;
    }
    a->awaited = false;
    if (a->push.rank < 0 || a->push.rank >= c->workers) {
        return err_set(e, ERR_PEER, "a push came from rank %d, which is not a worker",
                       a->push.rank);
    }
    return COMM_DONE;
}

/* COMM_DONE: the next push is in s->arrival; COMM_UNDER_WAY: none is, a worker was lost; or
 * negative. */
static int receive(struct server *s, struct err *e)
{
    int rc = receive_head(s, e);
    if (rc != COMM_DONE) {
        return rc;
    }
    const struct push_head *push = &s->arrival->push;
    if (s->clients[push->rank].dropped) { /* it was sent before the worker died, and the slice is
                                             another worker's now */
        return COMM_UNDER_WAY;
    }
    if (push->kind != PUSH_GRADIENT || (rc = receive_gradient(s, push->rank, e)) == COMM_DONE) {
        return COMM_DONE;
    }
    return rc < 0 ? rc : server_renew_arrival(s, e);
}

/* Is this a message that gets no answer? A worker with a state of its own sends some besides
 * gradients. */
static bool is_unanswered(const struct server *s, const struct push_head *push)
{
    return push->kind == PUSH_OWN_STATE ||
           (push->kind == PUSH_EVALUATION && s->env->test_samples == 0);
}

static int take_unanswered(struct server *s, const struct push_head *push, struct err *e)
{
    return push->kind == PUSH_OWN_STATE ? server_take_own_state(s, push->rank, e)
                                        : server_measured(s, push, e);
}

static int answer(struct server *s, struct err *e)
{
    const struct push_head *push = &s->arrival->push;
    const float *g = s->arrival->gradient.body; /* if it is a gradient */
    if (is_unanswered(s, push)) {
        return take_unanswered(s, push, e);
    }
    int rc = push->kind == PUSH_GRADIENT     ? take_gradient(s, push, g, e)
             : push->kind == PUSH_EVALUATION ? server_evaluated(s, push, e)
                                             : 0;
    if (rc < 0) {
        return rc;
    }
    server_park(s, push->rank);
    s->env->control(s->env->ctx, &s->control);
    if (push->kind == PUSH_RETURN) {
        server_take_back(s, push->rank);
    } else if (push->kind == PUSH_LEAVE) {
        server_let_go(s, push->rank);
    } else if (push->kind == PUSH_QUIT) {
        server_let_quit(s, push->rank);
    }
    if ((rc = decide(s, e)) < 0) {
        return rc;
    }
    return server_serve_parked(s, e);
}

/* Waits until the last answers have left, since their buffers are freed next. */
static int flush(struct server *s, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < s->env->comm->workers && rc >= 0; i++) {
        rc = s->clients[i].sending ? server_settle_reply(s, i, e) : 0;
    }
    return rc;
}

/* Reports the share of the last second or so that went into answers. */
static void tell_busy(struct server *s, double waited, double worked)
{
    double all = waited + worked, keep = exp(-all);
    s->busy = all > 0 ? keep * s->busy + (1 - keep) * worked / all : s->busy;
    if (s->env->served) {
        s->env->served(s->env->ctx, s->updates.version, s->busy);
    }
}

/* Sends every worker its first weights and slice. */
static int greet(struct server *s, struct err *e)
{
    s->env->control(s->env->ctx, &s->control);
    int rc = decide(s, e); /* after a restart everything may be done already */
    if (rc < 0) {
        return rc;
    }
    for (int i = 0; i < s->env->comm->workers; i++) {
        s->clients[i].reply.staleness = -1;
        server_park(s, i);
    }
    return server_serve_parked(s, e);
}

/* Goes on without the workers that were lost. Their slices go to waiting workers, and nothing waits
 * for the lost ones any longer. */
static int go_on_without(struct server *s, struct err *e)
{
    int rc;
    if (server_drop_lost(s) == 0) {
        return s->seats.awaited_at > 0 ? decide(s, e) : 0;
    }
    if (updates_regroup(&s->updates)) {
        settle(s);
    }
    return (rc = server_complete_checkpoint(s, e)) < 0 || (rc = decide(s, e)) < 0
               ? rc
               : server_serve_parked(s, e);
}

/* Goes on with a worker that has come back. */
static int go_on_with(struct server *s, struct err *e)
{
    return server_admits(s) ? server_take_back_seat(s, e) : 0;
}

static int serve_pushes(struct server *s, struct err *e)
{
    struct comm *c = s->env->comm;
    int rc = 0;
    while ((rc = go_on_without(s, e)) >= 0 && (rc = go_on_with(s, e)) >= 0 &&
           s->n_ended < c->workers) {
        double before = comm_now(c);
        if ((rc = receive(s, e)) < 0) {
            break;
        }
        double came = comm_now(c);
        if (rc == COMM_DONE && (rc = answer(s, e)) < 0) {
            break;
        }
        tell_busy(s, came - before, comm_now(c) - came);
    }
    return rc;
}

/* After their end workers send what they measured on the last weights, and their own states. Then
 * the last state is complete. */
static int hear_last(struct server *s, struct err *e)
{
    int rc = 0;
    if (!s->env->keeps_own) {
        return 0;
    }
    while (rc >= 0 && !server_has_own_states(s)) {
        if ((rc = receive(s, e)) == COMM_UNDER_WAY) {
            server_drop_lost(s);
        } else if (rc == COMM_DONE) {
            const struct push_head *push = &s->arrival->push;
            rc = is_unanswered(s, push)
                     ? take_unanswered(s, push, e)
                     : err_set(e, ERR_PEER, "rank %d goes on after its end", push->rank);
        }
    }
    return rc < 0 ? rc : server_save(s, s->last_save, e);
}

static int order_end(struct server *s, struct err *e)
{
    struct order end = {.kind = ORDER_END, .outcome = s->outcome};
    return shard_order(s->env->comm, &end, e);
}

/* Keeps the memory of messages to and from lost workers until the process ends, since these
 * messages never end and other exchange goes on. */
static void leave_behind(struct server *s)
{
    static struct server *last;
    s->before = last;
    last = s;
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
    env->comm->deadline = 0; /* the next push may take long; heartbeats show which ranks are alive
                              */
    int rc;
    if ((rc = server_init(s, env, from, e)) < 0 || (rc = greet(s, e)) < 0 ||
        (rc = serve_pushes(s, e)) < 0 || (rc = hear_last(s, e)) < 0 || (rc = flush(s, e)) < 0 ||
        (rc = order_end(s, e)) < 0) {
        comm_abandon(env->comm); /* answers under way use memory that is freed next */
    } else {
        rc = s->outcome;
    }
    env->comm->deadline = deadline;
    if (rc >= 0 && s->lost_any) {
        leave_behind(s);
    } else {
        server_release(s);
        free(s);
    }
    return rc;
}

/* The server of server strategies (SEMANTICS.md 1, 3, 4, 5): it has the weights and the cursor, takes gradients in the order of arrival
 * (updates.c makes versions of them), and answers each with the newest weights and the next slice.
 *
 *      pushes in order of arrival     A   B   A   C   A   B          four workers, c = 1: between a worker's pull and its
 *      version after it               1   2   3   4   5   6          push the others' updates come; C pulled version 0 and is
 *      staleness                      0   1   1   3   1   3          applied as the 4th: 3 versions late
 *
 * A slice is done when its gradient was applied; slices that are out are in every checkpoint and are handed out again after a restart.
 * There is no barrier at an epoch's end. At an evaluation's boundary the weights are set aside and test slices are handed out before
 * training slices, which are kept for the evaluating workers, so that an evaluation changes nobody's samples. A worker for whom there is nothing, or who has to wait by the strategy's policy, is parked: it gets no answer until
 * there is one. Several that are released at one moment are answered by rank. */
#include "worker/exchange/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/moments.h"
#include "worker/exchange/push.h"
#include "worker/exchange/shard.h"
#include "worker/exchange/updates.h"

enum { EVAL_SLICES_PER_WORKER = 4, EVAL_SLICE_MIN = 64 };

struct client { /* a worker as the server sees it */
    struct slice out;     /* count 0: none */
    struct slice kept;    /* its next one, while it evaluates: slices go in the order of pulls */
    bool grouped;         /* its last gradient is in a group that is not complete */
    int64_t pushes;
    bool parked, ended;
    double parked_at;
    struct reply_head reply;
    struct message head, weights, stats_sent;
    bool sending;
    float *pulled;    /* [n + n_stats] what it has: its own copy, since ours moves on while it is sent */
    struct staleness staleness;
    int64_t evaluating; /* samples of a test slice that is out */
};

struct server {
    const struct server_policy *policy;
    struct rank_env *env;
    struct updates updates;
    float *g, *snapshot; /* [n] of the push under way; [n + n_stats] under evaluation */
    float *stats, *pushed_stats; /* [n_stats] running statistics: merged, of the push under way */
    size_t n, n_stats; /* n: this server's own range of the block */
    float *full, *full_optim; /* [n_params], [blocks][n_params] of all servers, for a state; NULL with one server */
    struct cursor cursor;
    struct slice *redo;  /* [RUN_SLICES] to be handed out again */
    int n_redo;
    struct slice grouped[SPEC_WORKERS]; /* slices of the group that is not complete */
    int n_grouped;
    struct client *clients;
    int64_t applied;
    struct agenda agenda;
    struct control control;
    /* evaluation */
    bool evaluating, due;
    int64_t eval_next, eval_done, eval_step;
    double eval_epoch, eval_time, eval_loss, eval_correct;
    int64_t evaluated_version; /* -1: none */
    double last_accuracy, last_loss, best;
    bool target_reached;
    double busy; /* share of time */
    int outcome; /* -1: goes on; 0 ended, 1 paused, 2 stopped */
    struct run_state *state;
};

/* ---- start and end ------------------------------------------------------------------------------------------- */

static size_t blocks_of(const struct server *s)
{
    return s->n > 0 ? s->updates.n_optim / s->n : 0;
}

/* What the further servers have to do as well. */
static int order(struct server *s, enum order_kind kind, int rank, struct err *e)
{
    struct order o = {.kind = kind, .rank = rank};
    return shard_order(s->env->comm, &o, e);
}

static int init(struct server *s, struct rank_env *env, const struct run_state *from, struct err *e)
{
    int W = env->comm->workers;
    s->env = env;
    s->n = shard_count(env->n_params, env->comm->servers, 0);
    s->n_stats = env->n_stats;
    s->g = malloc(s->n * sizeof(float) + 1);
    s->stats = calloc(2 * s->n_stats + 1, sizeof(float));
    s->redo = calloc(RUN_SLICES, sizeof *s->redo);
    s->clients = calloc((size_t)W, sizeof *s->clients);
    s->state = calloc(1, sizeof *s->state);
    bool ok = s->g && s->stats && s->redo && s->clients && s->state;
    for (int i = 0; ok && i < W; i++) {
        s->clients[i].pulled = malloc((s->n + s->n_stats) * sizeof(float) + 1);
        staleness_init(&s->clients[i].staleness);
        ok = s->clients[i].pulled != NULL;
    }
    if (!ok) {
        return err_set(e, ERR_MEMORY, "cannot serve %d workers with %zu parameters: memory ran out", W, s->n);
    }
    s->pushed_stats = s->stats + s->n_stats;
    if (from->stats && from->n_stats == s->n_stats) {
        memcpy(s->stats, from->stats, s->n_stats * sizeof(float));
    }
    s->cursor = from->cursor;
    s->applied = from->applied_samples;
    memcpy(s->redo, from->out, (size_t)from->n_out * sizeof *s->redo);
    s->n_redo = from->n_out;
    s->evaluated_version = -1;
    s->outcome = -1;
    const json_t *told = json_is_object(from->extra) ? json_object_get(from->extra, "staleness") : NULL;
    for (int i = 0; i < W; i++) {
        const json_t *one = json_array_get(told, (size_t)i);
        if (one) {
            staleness_read(&s->clients[i].staleness, one);
        }
    }
    s->best = json_is_object(from->extra) ? json_number_value(json_object_get(from->extra, "best")) : 0;
    agenda_init(&s->agenda, env->spec, env->train_samples, s->applied, from->version, comm_now(env->comm));
    int rc = updates_init(&s->updates, s->policy, env, 0, s->n, from, e);
    if (rc >= 0 && env->comm->servers > 1) {
        s->full = malloc(env->n_params * sizeof(float) + 1);
        s->full_optim = malloc(blocks_of(s) * env->n_params * sizeof(float) + 1);
        rc = s->full && s->full_optim ? 0 : err_set(e, ERR_MEMORY, "cannot hold a state of %zu parameters: memory ran out", env->n_params);
    }
    return rc;
}

static void release(struct server *s)
{
    for (int i = 0; s->clients && i < s->env->comm->workers; i++) {
        free(s->clients[i].pulled);
        staleness_release(&s->clients[i].staleness);
    }
    updates_release(&s->updates);
    free(s->clients);
    free(s->redo);
    free(s->full);
    free(s->full_optim);
    free(s->g);
    free(s->stats);
    free(s->snapshot);
    free(s->state);
}

static json_t *extra_json(const struct server *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->env->comm->workers; i++) {
        json_array_append_new(list, staleness_dump(&s->clients[i].staleness));
    }
    return json_pack("{s:o, s:f}", "staleness", list, "best", s->best);
}

/* A slice that is not done; pieces of one that was split come together again. */
static void add_out(struct run_state *state, const struct slice *slice)
{
    struct slice *last = state->n_out > 0 ? &state->out[state->n_out - 1] : NULL;
    if (slice->count == 0) {
        return;
    }
    if (last && last->epoch == slice->epoch && last->start + last->count == slice->start) {
        last->count += slice->count;
        return;
    }
    BUG_ON(state->n_out == RUN_SLICES);
    state->out[state->n_out++] = *slice;
}

/* All ranges into one block. `params` is this server's; on return all of them, as is `optim`. */
static int collect(struct server *s, const float **params, const float **optim, struct err *e)
{
    size_t n = s->env->n_params, blocks = blocks_of(s);
    if (s->env->comm->servers == 1) {
        return 0;
    }
    int rc = order(s, *params == s->snapshot ? ORDER_STATE_EVAL : ORDER_STATE, 0, e);
    memcpy(s->full, *params, s->n * sizeof(float));
    for (size_t b = 0; b < blocks; b++) {
        memcpy(s->full_optim + b * n, s->updates.optim + b * s->n, s->n * sizeof(float));
    }
    *params = s->full;
    *optim = blocks > 0 ? s->full_optim : NULL;
    return rc < 0 ? rc : shard_collect(s->env->comm, s->full, s->full_optim, n, (int)blocks, e);
}

static int save(struct server *s, int why, const float *params, const float *stats, struct err *e)
{
    struct run_state *state = s->state;
    const float *optim = s->updates.optim;
    int rc = collect(s, &params, &optim, e);
    if (rc < 0 || !s->env->save) {
        return rc;
    }
    *state = (struct run_state){.params = params, .optim = optim, .stats = stats, .n_params = s->env->n_params,
                                .n_optim = blocks_of(s) * s->env->n_params, .n_stats = s->n_stats,
                                .version = s->updates.version,
                                .applied_samples = s->applied, .cursor = s->cursor,
                                .test_accuracy = why == SAVE_BEST || s->evaluated_version == s->updates.version ? s->last_accuracy : -1,
                                .test_loss = s->last_loss};
    state->why = why == SAVE_FINAL ? SAVE_FINAL : why == SAVE_BEST ? SAVE_BEST : why == SAVE_PAUSE ? SAVE_PAUSE : SAVE_CHECKPOINT;
    for (int i = 0; i < s->n_redo; i++) {
        add_out(state, &s->redo[i]);
    }
    for (int i = 0; i < s->n_grouped; i++) {
        add_out(state, &s->grouped[i]);
    }
    for (int i = 0; i < s->env->comm->workers; i++) {
        add_out(state, &s->clients[i].out);
        add_out(state, &s->clients[i].kept);
    }
    state->extra = extra_json(s);
    rc = s->env->save(s->env->ctx, state, e);
    json_decref(state->extra);
    state->extra = NULL;
    return rc;
}

/* ---- what is handed out -------------------------------------------------------------------------------------- */

static int size_of(const struct server *s, int rank)
{
    int size = s->control.version > 0 ? s->control.sizes[rank] : s->env->first_sizes[rank];
    return size > 0 ? size : 1;
}

/* The next slice of at most `want` samples: first what has to be done again, then the cursor's. */
static bool take_slice(struct server *s, int64_t want, struct slice *out)
{
    if (s->n_redo > 0) {
        *out = s->redo[0];
        if (out->count > want) {
            out->count = want;
            s->redo[0].start += want;
            s->redo[0].count -= want;
        } else {
            memmove(s->redo, s->redo + 1, (size_t)--s->n_redo * sizeof *s->redo);
        }
        return true;
    }
    return cursor_take(&s->cursor, want, out);
}

static bool nothing_left(const struct server *s)
{
    return s->target_reached || (s->n_redo == 0 && cursor_done(&s->cursor));
}

/* For one worker: what was kept for it is left to it. */
static bool nothing_left_for(const struct server *s, int rank)
{
    return s->target_reached || (s->clients[rank].kept.count == 0 && nothing_left(s));
}

static int slices_out(const struct server *s)
{
    int n = 0;
    for (int i = 0; i < s->env->comm->workers; i++) {
        n += s->clients[i].out.count > 0;
    }
    return n;
}

static bool slices_kept(const struct server *s)
{
    bool kept = false;
    for (int i = 0; i < s->env->comm->workers && !s->target_reached; i++) {
        kept = kept || s->clients[i].kept.count > 0;
    }
    return kept;
}

/* Starts sending an answer; `weights` NULL: the header alone. */
static int send_reply(struct server *s, int rank, const float *weights, const float *stats, struct err *e)
{
    struct client *k = &s->clients[rank];
    struct comm *c = s->env->comm;
    static char none;
    if (k->sending) { /* it pushed again, so the last answer is through: this only takes note */
        int rc = comm_wait(c, &k->head.op, e);
        rc = rc < 0 || !k->weights.op.step ? rc : comm_wait(c, &k->weights.op, e);
        rc = rc < 0 || !k->stats_sent.op.step ? rc : comm_wait(c, &k->stats_sent.op, e);
        if (rc < 0) {
            return rc;
        }
    }
    k->reply.parked_s = k->parked ? comm_now(c) - k->parked_at : 0;
    k->parked = false;
    k->sending = true;
    memset(&k->weights, 0, sizeof k->weights);
    memset(&k->stats_sent, 0, sizeof k->stats_sent);
    message_send(&k->head, c, rank, TAG_REPLY, &k->reply, sizeof k->reply, NULL, 0);
    if (weights) {
        memcpy(k->pulled, weights, s->n * sizeof(float));
        message_send(&k->weights, c, rank, TAG_WEIGHTS, &none, 1, k->pulled, s->n);
        int rc = order(s, weights == s->snapshot ? ORDER_SEND_EVAL : ORDER_SEND, rank, e);
        if (rc < 0) {
            return rc;
        }
        if (s->n_stats > 0) {
            memcpy(k->pulled + s->n, stats, s->n_stats * sizeof(float));
            message_send(&k->stats_sent, c, rank, TAG_STATS, &none, 1, k->pulled + s->n, s->n_stats);
        }
    }
    return 0;
}

static int hand_test_slice(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    int64_t total = s->env->test_samples, part = total / (EVAL_SLICES_PER_WORKER * s->env->comm->workers) + 1;
    part = part < EVAL_SLICE_MIN ? EVAL_SLICE_MIN : part;
    part = part < total - s->eval_next ? part : total - s->eval_next;
    k->reply.action = DO_EVALUATE;
    k->reply.version = s->eval_step;
    k->reply.eval_first = s->eval_next;
    k->reply.eval_count = part;
    k->reply.slice = k->reply.hint = (struct slice){0};
    k->evaluating = part;
    s->eval_next += part;
    s->env->aside(s->env->ctx, true);
    int rc = send_reply(s, rank, s->snapshot, s->snapshot + s->n, e);
    s->env->aside(s->env->ctx, false);
    return rc;
}

static int hand_slice(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    int size = size_of(s, rank);
    if (k->kept.count > 0) {
        k->out = k->kept;
        k->kept.count = 0;
        size = size > k->out.count ? size : (int)k->out.count;
    } else {
        BUG_ON(!take_slice(s, size, &k->out));
    }
    struct cursor ahead = s->cursor;
    k->reply.action = DO_TRAIN;
    k->reply.version = s->updates.version;
    k->reply.slice = k->out;
    k->reply.batch = size;
    k->reply.next_batch = 0;
    k->reply.learning_rate = jobspec_rate(&s->env->spec->optimizer, slice_epoch(&k->out, s->env->train_samples));
    /* a guess: what would come if all others pulled once before; loading it early is never wrong, only useless */
    k->reply.hint = (struct slice){0};
    int64_t others = s->env->spec->batching.global_batch - size;
    if ((others > 0 && !cursor_take(&ahead, others, &k->reply.hint)) || !cursor_take(&ahead, size, &k->reply.hint)) {
        k->reply.hint.count = 0;
    }
    return send_reply(s, rank, s->updates.w, s->stats, e);
}

static int end_client(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    k->reply.action = s->outcome == 0 ? DO_END : s->outcome == 1 ? DO_PAUSE : DO_STOP;
    k->ended = true;
    return send_reply(s, rank, NULL, NULL, e);
}

/* Does the strategy let this worker go on? */
static bool may_pull(const struct server *s, int rank)
{
    const struct server_policy *policy = s->policy;
    if (policy->blocking && policy->blocking(s->env) && s->clients[rank].grouped) {
        return false;
    }
    int64_t least = s->clients[rank].pushes;
    for (int i = 0; policy->lead && i < s->env->comm->workers; i++) {
        least = s->clients[i].ended || s->clients[i].pushes > least ? least : s->clients[i].pushes;
    }
    return !policy->lead || s->clients[rank].pushes - least <= policy->lead(s->env);
}

static void park(struct server *s, int rank)
{
    s->clients[rank].parked = true;
    s->clients[rank].parked_at = comm_now(s->env->comm);
}

/* Answers a worker with what there is for it, if there is anything. */
static int serve_client(struct server *s, int rank, struct err *e)
{
    bool asked = s->control.pause || s->control.stop;
    if (s->outcome >= 0) {
        return end_client(s, rank, e);
    }
    bool trains = !asked && !nothing_left_for(s, rank) && may_pull(s, rank);
    if (s->evaluating && !asked && s->eval_next < s->env->test_samples) {
        if (trains && s->clients[rank].kept.count == 0) {
            take_slice(s, size_of(s, rank), &s->clients[rank].kept);
        }
        return hand_test_slice(s, rank, e);
    }
    if (trains) {
        return hand_slice(s, rank, e);
    }
    return 0; /* it stays parked */
}

static int serve_parked(struct server *s, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < s->env->comm->workers && rc >= 0; i++) {
        if (s->clients[i].parked) {
            rc = serve_client(s, i, e);
        }
    }
    return rc;
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* The slices of an update that was made are done. */
static void settle(struct server *s)
{
    for (int i = 0; i < s->n_grouped; i++) {
        s->applied += s->grouped[i].count;
    }
    s->n_grouped = 0;
    for (int i = 0; i < s->env->comm->workers; i++) {
        s->clients[i].grouped = false;
    }
    s->due = agenda_evaluate(&s->agenda, s->applied, s->updates.version) || s->due;
}

static int take_gradient(struct server *s, const struct push_head *push, struct err *e)
{
    struct rank_env *env = s->env;
    struct client *k = &s->clients[push->rank];
    int64_t tau = s->updates.version - push->version;
    if (!isfinite(push->loss)) {
        return err_set(e, ERR_DATA, "the loss is not finite any more: worker %d at version %lld", push->rank, (long long)push->version);
    }
    if (s->n_stats > 0) {
        double share = (double)push->slice.count / env->spec->batching.global_batch;
        moments_blend(s->stats, s->pushed_stats, env->mean_of, s->n_stats, share < 1 ? (float)share : 1);
    }
    struct order further = {.kind = ORDER_APPLY, .rank = push->rank, .tau = tau, .push = *push};
    int rc = shard_order(env->comm, &further, e);
    if (rc < 0) {
        return rc;
    }
    bool updated = updates_add(&s->updates, s->g, k->pulled, &push->slice, tau);
    BUG_ON(s->n_grouped == SPEC_WORKERS);
    s->grouped[s->n_grouped++] = push->slice;
    k->grouped = true;
    k->out.count = 0;
    k->pushes++;
    staleness_add(&k->staleness, (int)tau, (int)push->slice.count);
    if (updated) {
        settle(s);
    }
    k->reply.staleness = (int32_t)tau;
    k->reply.step = s->updates.version + !updated;
    k->reply.epoch = env->train_samples > 0 ? (double)s->applied / (double)env->train_samples : 0;
    k->reply.time = comm_now(env->comm) - env->job_start;
    return 0;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------ */

static int begin_evaluation(struct server *s, struct err *e)
{
    s->due = false;
    if (s->env->test_samples == 0) {
        s->evaluated_version = s->updates.version;
        return 0;
    }
    if (!s->snapshot && !(s->snapshot = malloc((s->n + s->n_stats) * sizeof(float) + 1))) {
        return err_set(e, ERR_MEMORY, "cannot set weights aside for an evaluation: memory ran out");
    }
    memcpy(s->snapshot, s->updates.w, s->n * sizeof(float));
    memcpy(s->snapshot + s->n, s->stats, s->n_stats * sizeof(float));
    s->evaluating = true;
    s->eval_next = s->eval_done = 0;
    s->eval_loss = s->eval_correct = 0;
    s->eval_step = s->updates.version;
    s->eval_epoch = s->env->train_samples > 0 ? (double)s->applied / (double)s->env->train_samples : 0;
    s->eval_time = comm_now(s->env->comm) - s->env->job_start;
    return order(s, ORDER_SET_ASIDE, 0, e);
}

static int end_evaluation(struct server *s, struct err *e)
{
    const struct rank_env *env = s->env;
    double n = (double)env->test_samples;
    s->evaluating = false;
    s->evaluated_version = s->eval_step;
    s->last_loss = s->eval_loss / n;
    s->last_accuracy = s->eval_correct / n;
    s->target_reached = s->target_reached || (env->spec->target_accuracy > 0 && s->last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {.step = s->eval_step, .epoch = s->eval_epoch, .time = s->eval_time, .loss = s->last_loss, .accuracy = s->last_accuracy,
                            .samples = env->test_samples, .final = s->eval_step == s->updates.version && nothing_left(s) && slices_out(s) == 0};
    env->evaluated(env->ctx, &ev);
    if (s->last_accuracy > s->best) {
        s->best = s->last_accuracy;
        return save(s, SAVE_BEST, s->snapshot, s->snapshot + s->n, e);
    }
    return 0;
}

static int evaluated(struct server *s, const struct push_head *push, struct err *e)
{
    struct client *k = &s->clients[push->rank];
    s->eval_loss += push->loss;
    s->eval_correct += (double)push->correct;
    s->eval_done += push->slice.count;
    k->evaluating = 0;
    k->reply.staleness = -1;
    return s->eval_done == s->env->test_samples ? end_evaluation(s, e) : 0;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* After every push: is something due, or is it over? */
static int decide(struct server *s, struct err *e)
{
    bool asked = s->control.pause || s->control.stop, idle = slices_out(s) == 0;
    int rc = 0;
    for (int i = 0; i < s->env->comm->workers; i++) {
        idle = idle && s->clients[i].evaluating == 0;
    }
    if (asked && idle) {
        s->outcome = s->control.stop ? 2 : 1;
        rc = save(s, s->control.stop ? (int)SAVE_CHECKPOINT : (int)SAVE_PAUSE, s->updates.w, s->stats, e);
    } else if (!asked && !s->evaluating) {
        bool over = nothing_left(s) && idle && !slices_kept(s);
        if (over && updates_flush(&s->updates)) {
            settle(s); /* no other gradient will come to complete the group */
            rc = order(s, ORDER_FLUSH, 0, e);
        }
        if (rc < 0) {
            return rc;
        }
        if (over && s->evaluated_version == s->updates.version) {
            s->outcome = 0;
            rc = save(s, SAVE_FINAL, s->updates.w, s->stats, e);
        } else if (over || s->due) {
            rc = begin_evaluation(s, e);
            rc = rc < 0 || s->evaluating || !over ? rc : decide(s, e); /* there is no test set: nothing to wait for */
        }
    }
    if (rc >= 0 && s->outcome < 0 && (s->control.checkpoint || agenda_checkpoint(&s->agenda, s->updates.version, comm_now(s->env->comm)))) {
        rc = save(s, SAVE_CHECKPOINT, s->updates.w, s->stats, e);
    }
    return rc;
}

static bool all_ended(const struct server *s)
{
    for (int i = 0; i < s->env->comm->workers; i++) {
        if (!s->clients[i].ended) {
            return false;
        }
    }
    return true;
}

static int receive(struct server *s, struct push_head *push, struct err *e)
{
    struct comm *c = s->env->comm;
    struct message head, gradient;
    char none;
    message_recv(&head, c, TRANSPORT_ANY, TAG_PUSH, push, sizeof *push, NULL, 0);
    int rc = comm_wait(c, &head.op, e);
    if (rc >= 0 && (push->rank < 0 || push->rank >= c->workers)) {
        return err_set(e, ERR_PEER, "a push came from rank %d, which is no worker", push->rank);
    }
    if (rc >= 0 && push->kind == PUSH_GRADIENT) {
        message_recv(&gradient, c, push->rank, TAG_GRADIENT, &none, 1, s->g, s->n);
        rc = comm_wait(c, &gradient.op, e);
        if (rc >= 0 && s->n_stats > 0) {
            message_recv(&gradient, c, push->rank, TAG_STATS, &none, 1, s->pushed_stats, s->n_stats);
            rc = comm_wait(c, &gradient.op, e);
        }
    }
    return rc;
}

static int answer(struct server *s, const struct push_head *push, struct err *e)
{
    int rc = push->kind == PUSH_GRADIENT ? take_gradient(s, push, e) : evaluated(s, push, e);
    park(s, push->rank);
    s->env->control(s->env->ctx, &s->control);
    rc = rc < 0 ? rc : decide(s, e);
    return rc < 0 ? rc : serve_parked(s, e);
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

int server_serve(const struct server_policy *policy, struct rank_env *env, const struct run_state *from, struct err *e)
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
    int rc = init(s, env, from, e);
    if (rc >= 0) {
        env->control(env->ctx, &s->control);
        rc = decide(s, e); /* a restart may find that everything was done */
    }
    for (int i = 0; rc >= 0 && i < env->comm->workers; i++) {
        s->clients[i].reply.staleness = -1;
        park(s, i);
    }
    rc = rc < 0 ? rc : serve_parked(s, e);
    struct push_head push;
    while (rc >= 0 && !all_ended(s)) {
        double before = comm_now(env->comm);
        rc = receive(s, &push, e);
        double came = comm_now(env->comm);
        rc = rc < 0 ? rc : answer(s, &push, e);
        tell_busy(s, came - before, comm_now(env->comm) - came);
    }
    int outcome = s->outcome;
    rc = rc < 0 ? rc : flush(s, e);
    rc = rc < 0 ? rc : order(s, ORDER_END, outcome, e);
    env->comm->deadline = deadline;
    release(s);
    free(s);
    return rc < 0 ? rc : outcome;
}

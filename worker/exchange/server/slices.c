/* Decides what a server hands out (training slices in the order of pulls, test slices at an
 * evaluation's boundary, an end), and which workers wait for what. */
#include "worker/exchange/server/parts.h"

#include <string.h>

enum { EVAL_SLICES_PER_WORKER = 4, EVAL_SLICE_MIN = 64 };

static int size_of(const struct server *s, int rank)
{
    int size = s->control.version > 0 ? s->control.sizes[rank] : 0;
    if (size <= 0) { /* also for a worker that has come back, until minibatches are shared out */
        size = s->env->first_sizes[rank];
    }
    return size > 0 ? size : 1;
}

/* Takes the next slice of at most `want` samples: first slices to be done again, then the
 * cursor's. */
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

int64_t server_next_epoch(const struct server *s)
{
    struct cursor ahead = s->cursor;
    struct slice next;
    int64_t epoch = cursor_take(&ahead, 1, &next) ? next.epoch : ahead.epoch;
    for (int i = 0; i < s->n_redo; i++) {
        epoch = s->redo[i].epoch < epoch ? s->redo[i].epoch : epoch;
    }
    return epoch;
}

/* Can no worker take a slice? Programs that were told that nothing follows begin no other slice. */
static bool nobody_asks(const struct server *s)
{
    int W = s->env->comm->workers, i = 0;
    while (i < W && s->env->program.ahead > 0) {
        const struct client *k = &s->clients[i++];
        if (!k->ended && !k->left && (!k->told_last || k->again)) {
            return false;
        }
    }
    return s->env->program.ahead > 0;
}

bool server_nothing_left(const struct server *s)
{
    return s->eval.target_reached || (s->n_redo == 0 && cursor_done(&s->cursor)) || nobody_asks(s);
}

/* Is nothing left for this worker? A slice that is kept for it counts. */
static bool nothing_left_for(const struct server *s, int rank)
{
    const struct client *k = &s->clients[rank];
    return s->eval.target_reached || k->left || (k->told_last && !k->again) ||
           (k->kept.count == 0 && !k->again && server_nothing_left(s));
}

bool server_slices_kept(const struct server *s)
{
    return !s->eval.target_reached && s->n_kept > 0;
}

/* Sets a slice and the count of clients that have one. Counting a thousand clients after every push
 * would take too long. */
static void set_slice(struct slice *of_client, int *n, const struct slice *slice)
{
    bool is = slice && slice->count > 0;
    *n += (int)is - (of_client->count > 0);
    of_client->count = 0;
    if (is) {
        *of_client = *slice;
    }
}

void server_set_out(struct server *s, struct client *k, const struct slice *slice)
{
    set_slice(&k->out, &s->n_out, slice);
}

void server_set_kept(struct server *s, struct client *k, const struct slice *slice)
{
    set_slice(&k->kept, &s->n_kept, slice);
}

void server_redo(struct server *s, const struct slice *slice)
{
    if (slice->count > 0) {
        BUG_ON(s->n_redo == RUN_SLICES);
        s->redo[s->n_redo++] = *slice;
    }
}

/* The same worker gets the slice again, since other programs may have left: they were told that
 * nothing else comes. */
void server_take_back(struct server *s, int rank)
{
    struct client *k = &s->clients[rank];
    k->reply.staleness = -1;
    k->again = !s->control.pause && !s->control.stop && !s->eval.target_reached;
    if (!k->again) {
        server_redo(s, &k->out);
        server_redo(s, &k->kept);
        server_set_out(s, k, NULL);
        server_set_kept(s, k, NULL);
    }
}

static void let_leave(struct server *s, struct client *gone)
{
    s->n_left += !gone->left;
    gone->left = true;
    gone->reply.staleness = -1;
    s->least = -1;
    server_set_out(s, gone, NULL);
}

/* Its slices go to the others, whose loops may be longer. */
void server_let_quit(struct server *s, int rank)
{
    struct client *gone = &s->clients[rank];
    s->quits = true;
    server_redo(s, &gone->out);
    server_redo(s, &gone->kept);
    server_set_kept(s, gone, NULL);
    let_leave(s, gone);
}

static void forget_later(struct server *s)
{
    int n = 0;
    for (int i = 0; i < s->n_redo; i++) {
        if (s->redo[i].epoch < s->cursor.epochs) {
            s->redo[n++] = s->redo[i];
        }
    }
    s->n_redo = n;
}

/* Takes back announced slices of later epochs. Slices that are out stay, since each program leaves
 * at the end of its own last epoch. */
void server_let_go(struct server *s, int rank)
{
    struct client *gone = &s->clients[rank];
    int64_t end = gone->out.epoch;
    s->cursor.epochs = end < s->cursor.epochs ? end : s->cursor.epochs;
    if (gone->kept.epoch < s->cursor.epochs) { /* left over by a program that quit before */
        server_redo(s, &gone->kept);
        server_set_kept(s, gone, NULL);
    }
    let_leave(s, gone);
    for (int i = 0; i < s->env->comm->workers; i++) {
        struct client *k = &s->clients[i];
        if (k->kept.count > 0 && k->kept.epoch >= s->cursor.epochs) {
            server_set_kept(s, k, NULL);
            k->told_last = true; /* its program expects only announced slices */
        }
    }
    forget_later(s);
}

void server_set_evaluating(struct server *s, struct client *k, int64_t samples)
{
    s->eval.n_out += (samples > 0) - (k->evaluating > 0);
    k->evaluating = samples;
}

/* If the client has pushed again, its last answer has arrived; notes this. */
int server_settle_reply(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    int rc = k->lost ? COMM_UNDER_WAY : server_wait(s, &k->head.op, rank, e);
    if (rc == COMM_DONE && k->weights.op.step) {
        rc = server_wait(s, &k->weights.op, rank, e);
    }
    if (rc == COMM_DONE && k->stats_sent.op.step) {
        rc = server_wait(s, &k->stats_sent.op, rank, e);
    }
    return rc < 0 ? rc : 0;
}

static bool is_first(const struct server *s, int rank)
{
    int first = 0;
    while (first < rank && s->clients[first].lost) {
        first++;
    }
    return first == rank;
}

/* Starts sending an answer with these weights, which the client holds from now on; NULL: the header
 * alone. */
static int send_reply(struct server *s, int rank, struct version *weights, const float *stats,
                      struct err *e)
{
    struct client *k = &s->clients[rank];
    struct comm *c = s->env->comm;
    static char none;
    int rc = k->sending ? server_settle_reply(s, rank, e) : 0;
    if (rc < 0 || k->lost) { /* to a lost worker it is still under way */
        return rc;
    }
    k->reply.own_state = s->collecting && !k->gave && k->reply.action == DO_TRAIN;
    k->reply.measures = is_first(s, rank);
    k->reply.parked_s = k->parked ? comm_now(c) - k->parked_at : 0;
    k->parked = false;
    k->sending = true;
    memset(&k->weights, 0, sizeof k->weights);
    memset(&k->stats_sent, 0, sizeof k->stats_sent);
    message_send(&k->head, c, rank, TAG_REPLY, &k->reply, sizeof k->reply, NULL, 0);
    if (weights) {
        updates_hold(&s->updates, &k->held, weights);
        message_send(&k->weights, c, rank, TAG_WEIGHTS, &none, 1, weights->w, s->n);
        rc = server_order(s, weights == s->eval.snapshot ? ORDER_SEND_EVAL : ORDER_SEND, rank, e);
        if (rc < 0) {
            return rc;
        }
        if (s->n_stats > 0) {
            memcpy(k->stats, stats, s->n_stats * sizeof(float));
            message_send(&k->stats_sent, c, rank, TAG_STATS, &none, 1, k->stats, s->n_stats);
        }
    }
    return 0;
}

static bool test_slice_left(const struct server *s)
{
    return s->eval.next < s->env->test_samples || s->eval.n_again > 0;
}

/* Takes the next test slice, or one that a lost worker had. */
static struct slice take_test_slice(struct server *s)
{
    int64_t total = s->env->test_samples,
            part = total / (EVAL_SLICES_PER_WORKER * s->env->comm->workers) + 1;
    if (s->eval.n_again > 0) {
        return s->eval.again[--s->eval.n_again];
    }
    part = part < EVAL_SLICE_MIN ? EVAL_SLICE_MIN : part;
    part = part < total - s->eval.next ? part : total - s->eval.next;
    s->eval.next += part;
    return (struct slice){.start = s->eval.next - part, .count = part};
}

static int hand_test_slice(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    struct slice part = take_test_slice(s);
    k->reply.action = DO_EVALUATE;
    k->reply.version = s->eval.step;
    k->reply.eval_first = part.start;
    k->reply.eval_count = part.count;
    k->reply.slice = k->reply.hint = (struct slice){0};
    server_set_evaluating(s, k, part.count);
    s->env->aside(s->env->ctx, true);
    int rc = send_reply(s, rank, s->eval.snapshot, s->eval.stats, e);
    s->env->aside(s->env->ctx, false);
    return rc;
}

/* Keeps a client's next slice: a user's program gets it in advance, so no other worker may get
 * it. */
static void keep_next(struct server *s, struct client *k, int size)
{
    struct slice next;
    if (k->kept.count == 0 && take_slice(s, size, &next)) {
        server_set_kept(s, k, &next);
    }
    k->reply.hint = k->kept;
    k->told_last = k->kept.count == 0;
}

static int hand_slice(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    int size = size_of(s, rank);
    if (k->again) {
        k->again = false;
        size = size > k->out.count ? size : (int)k->out.count;
    } else if (k->kept.count > 0) { /* kept while it evaluated, or in advance */
        server_set_out(s, k, &k->kept);
        server_set_kept(s, k, NULL);
        size = size > k->out.count ? size : (int)k->out.count;
    } else {
        struct slice slice;
        BUG_ON(!take_slice(s, size, &slice));
        server_set_out(s, k, &slice);
    }
    struct cursor ahead = s->cursor;
    k->reply.action = DO_TRAIN;
    k->reply.version = s->updates.version;
    k->reply.slice = k->out;
    k->reply.batch = size;
    k->reply.next_batch = 0;
    k->reply.learning_rate =
        jobspec_rate(&s->env->spec->optimizer, slice_epoch(&k->out, s->env->train_samples));
    k->reply.hint = (struct slice){0};
    if (s->env->program.ahead > 0) {
        keep_next(s, k, size);
        return send_reply(s, rank, s->updates.now, s->stats, e);
    }
    /* a guess: the slice that would come if all others pulled once before. A wrong guess costs only
     * the loading */
    int64_t others = s->env->spec->batching.global_batch - size;
    if ((others > 0 && !cursor_take(&ahead, others, &k->reply.hint)) ||
        !cursor_take(&ahead, size, &k->reply.hint)) {
        k->reply.hint.count = 0;
    }
    return send_reply(s, rank, s->updates.now, s->stats, e);
}

static int end_client(struct server *s, int rank, struct err *e)
{
    struct client *k = &s->clients[rank];
    k->reply.action = s->outcome == RUN_ENDED    ? DO_END
                      : s->outcome == RUN_PAUSED ? DO_PAUSE
                                                 : DO_STOP;
    s->n_ended += !k->ended;
    k->ended = true;
    s->least = -1;
    k->reply.version = s->updates.version;
    k->reply.hint = (struct slice){0};
    return s->env->keeps_own ? send_reply(s, rank, s->updates.now, s->stats, e)
                             : send_reply(s, rank, NULL, NULL, e);
}

/* Does the strategy's policy let this worker go on? */
static bool may_pull(struct server *s, int rank)
{
    const struct server_policy *policy = s->policy;
    if (policy->blocking && policy->blocking(s->env) && s->clients[rank].grouped) {
        return false;
    }
    if (!policy->lead) {
        return true;
    }
    if (s->least < 0) {
        s->least = INT64_MAX;
        for (int i = 0; i < s->env->comm->workers; i++) {
            const struct client *k = &s->clients[i];
            int64_t clock = server_clock(k);
            s->least = k->ended || k->left || clock > s->least ? s->least : clock;
        }
    }
    int64_t clock = server_clock(&s->clients[rank]), least = s->least < clock ? s->least : clock;
    return clock - least <= policy->lead(s->env);
}

void server_park(struct server *s, int rank)
{
    if (!s->clients[rank].parked) {
        int i = s->n_parked++;
        for (; i > 0 && s->parked[i - 1] > rank; i--) {
            s->parked[i] = s->parked[i - 1];
        }
        s->parked[i] = rank;
    }
    s->clients[rank].parked = true;
    s->clients[rank].parked_at = comm_now(s->env->comm);
}

/* Answers a worker if there is anything for it. */
static int serve_client(struct server *s, int rank, struct err *e)
{
    bool asked = s->control.pause || s->control.stop;
    if (s->clients[rank].lost) {
        return 0;
    }
    if (s->outcome != RUN_GOES_ON) {
        return end_client(s, rank, e);
    }
    bool trains = !asked && !nothing_left_for(s, rank) && may_pull(s, rank);
    if (s->eval.under_way && !asked && test_slice_left(s)) {
        if (trains && s->clients[rank].kept.count == 0) {
            struct slice slice;
            if (take_slice(s, size_of(s, rank), &slice)) {
                server_set_kept(s, &s->clients[rank], &slice);
            }
        }
        return hand_test_slice(s, rank, e);
    }
    if (trains) {
        return hand_slice(s, rank, e);
    }
    return 0; /* it stays parked */
}

int server_serve_parked(struct server *s, struct err *e)
{
    int rc = 0, n = s->n_parked, still = 0;
    for (int i = 0; i < n && rc >= 0; i++) {
        int rank = s->parked[i];
        rc = serve_client(s, rank, e);
        if (s->clients[rank].parked) { /* no worker is parked meanwhile, since that happens only in
                                          the loop */
            s->parked[still++] = rank;
        }
    }
    s->n_parked = rc < 0 ? s->n_parked : still;
    return rc;
}

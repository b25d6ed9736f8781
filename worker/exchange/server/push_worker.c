/* The worker's half of server strategies: push a gradient, get weights and the next slice.
 *
 *      worker   compute ──► push (gradient, slice) ─►┐      ┌─► weights, next slice ──► compute …
 *      server                                        apply, version + 1
 *
 * Where MPI takes the device's pointers (device_buffer.c), the gradient is sent from its memory and
 * weights are received there; running statistics and headers are the host's. A gradient that is to
 * be clipped goes through the host, which measures it there.
 *
 * A worker never asks for work: the server sends the first reply at the start. A worker holds no
 * gradient while it evaluates: a test slice comes in place of a training slice. */
#include "worker/exchange/server/push_worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/gradients/device_buffer.h"
#include "worker/exchange/server/push.h"
#include "worker/exchange/server/shard.h"

/* The transfers under way between this rank and the servers: a range of the block for each server,
 * and the running statistics, which the first server has. All start at once, so together they cost
 * one latency.
 */
struct transfer {
    struct message ranges[SERVERS_MOST], stats;
    char heads[SERVERS_MOST + 1];
};

struct push_worker {
    struct strategy base;
    struct rank_env *env;
    struct device_buffer buffer; /* [n_params] weights, then the gradient on them */
    struct reply_head reply;
    struct part parts[2];
    struct transfer transfer;
    int64_t local_step;
    bool waiting; /* a pushed gradient has no answer yet */
    double pushed_at;
    struct row row; /* of the pushed gradient, without what the reply fills in */
};

struct strategy *push_worker_start(const struct strategy_ops *ops, struct rank_env *env,
                                   struct err *e)
{
    struct push_worker *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        return NULL;
    }
    s->base.ops = ops;
    s->env = env;
    s->local_step = env->local_step;
    if (env->spec->optimizer.clip_norm <= 0) {
        device_buffer_open(&s->buffer, env, env->n_params, 0);
    }
    return &s->base;
}

void push_worker_free(struct strategy *base)
{
    device_buffer_close(&((struct push_worker *)base)->buffer);
    free(base);
}

static void report(struct push_worker *s)
{
    struct rank_env *env = s->env;
    double took = comm_now(env->comm) - s->pushed_at, parked = s->reply.parked_s;
    parked = parked < took ? parked : took;
    s->row.step = s->reply.step;
    s->row.epoch = s->reply.epoch;
    s->row.time = s->reply.time;
    s->row.staleness = s->reply.staleness;
    s->row.strategy_value = s->reply.strategy_value;
    s->row.wait_seconds = (float)parked;
    s->row.exchange_seconds = (float)(took - parked);
    s->waiting = false;
    env->row(env->ctx, &s->row);
}

typedef void message_fn(struct message *m, struct comm *c, int peer, int tag, void *head,
                        size_t head_bytes, float *body, size_t floats);

static void begin_transfer(struct push_worker *s, message_fn *begin, int tag, float *block)
{
    struct comm *c = s->env->comm;
    struct transfer *t = &s->transfer;
    size_t n = s->env->n_params, n_stats = s->env->n_stats;
    for (int i = 0; i < c->servers; i++) {
        begin(&t->ranges[i], c, c->workers + i, tag, &t->heads[i], 1,
              block + shard_first(n, c->servers, i), shard_count(n, c->servers, i));
    }
    if (n_stats > 0) {
        begin(&t->stats, c, c->workers, TAG_STATS, &t->heads[SERVERS_MOST], 1,
              s->env->replica->host[DEV_STATS], n_stats);
    }
}

static int end_transfer(struct push_worker *s, struct err *e)
{
    struct comm *c = s->env->comm;
    int rc = 0, one;
    for (int i = 0; i < c->servers; i++) { /* it waits for all, so that none is left under way */
        one = comm_wait(c, &s->transfer.ranges[i].op, rc < 0 ? NULL : e);
        if (rc >= 0) { /* the first error stays */
            rc = one;
        }
    }
    one = s->env->n_stats > 0 ? comm_wait(c, &s->transfer.stats.op, rc < 0 ? NULL : e) : 0;
    return rc < 0 ? rc : one;
}

/* Reads weights that the server lends in place, if they come as one piece. */
static void take_lent(struct push_worker *s, float *block)
{
    struct dev_replica *r = s->env->replica;
    int servers = s->env->comm->servers;
    for (int i = 0; i < servers; i++) {
        const struct message *m = &s->transfer.ranges[i];
        float *range = block + shard_first(s->env->n_params, servers, i);
        if (m->body != range && servers == 1 && device_reads_in_place(r)) {
            device_read_at(r, DEV_PARAMS, m->body);
        } else if (m->body != range) {
            memcpy(range, m->body, m->body_bytes);
        }
    }
}

static int pull(struct push_worker *s, struct err *e)
{
    size_t n = s->env->n_params, n_stats = s->env->n_stats;
    struct dev_replica *r = s->env->replica;
    float *block = device_buffer_block(&s->buffer, r, DEV_PARAMS);
    int rc;
    begin_transfer(s, message_recv, TAG_WEIGHTS, block);
    if ((rc = end_transfer(s, e)) < 0) {
        return rc;
    }
    take_lent(s, block);
    if ((rc = device_buffer_store(&s->buffer, r, DEV_PARAMS, 0, n, e)) < 0) {
        return rc;
    }
    return n_stats > 0 ? r->dev->ops->store(r, DEV_STATS, 0, n_stats, e) : 0;
}

/* Waits for the server's answer to the last push, which may depend on other workers. */
static int receive_reply(struct push_worker *s, struct err *e)
{
    struct comm *c = s->env->comm;
    struct message head;
    double deadline = c->deadline;
    c->deadline = 0; /* a parked worker waits as long as the others compute; heartbeats tell who is
                        alive */
    message_recv(&head, c, c->workers, TAG_REPLY, &s->reply, sizeof s->reply, NULL, 0);
    int rc = comm_wait(c, &head.op, e);
    c->deadline = deadline;
    return rc;
}

/* Announces this slice and the one kept for this worker. If none is kept, no other will come. */
static void tell_parts(struct push_worker *s, struct work *out)
{
    const struct slice *now = &s->reply.slice, *next = &s->reply.hint;
    if (s->env->program.ahead == 0 || s->reply.action != DO_TRAIN) {
        return;
    }
    bool more = next->count > 0;
    s->parts[0] = (struct part){.slice = *now, .last = !more};
    s->parts[1] = (struct part){.slice = *next};
    out->parts = s->parts;
    out->n_parts = 1 + more;
}

static int send_head(struct push_worker *s, struct push_head *head, struct err *e)
{
    struct comm *c = s->env->comm;
    struct message m;
    message_send(&m, c, c->workers, TAG_PUSH, head, sizeof *head, NULL, 0);
    return comm_wait(c, &m.op, e);
}

/* Sends the own state, which belongs to the weights pulled last, before anything is computed on
 * them. */
static int give_own_state(struct push_worker *s, struct err *e)
{
    struct rank_env *env = s->env;
    struct push_head head = {.kind = PUSH_OWN_STATE, .rank = env->comm->rank};
    struct own_state own;
    int rc = env->own_state(env->ctx, &own, e);
    if (rc < 0) {
        return rc;
    }
    env->aside(env->ctx, true);
    if ((rc = send_head(s, &head, e)) >= 0) {
        rc = own_state_send(env->comm, env->comm->workers, &own, e);
    }
    env->aside(env->ctx, false);
    own_state_release(&own);
    return rc;
}

int push_worker_next(struct strategy *base, struct work *out, struct err *e)
{
    struct push_worker *s = (struct push_worker *)base;
    const struct reply_head *reply = &s->reply;
    int rc;
    device_read_at(s->env->replica, DEV_PARAMS, NULL);
    if ((rc = receive_reply(s, e)) < 0) {
        return rc;
    }
    s->env->measures = reply->measures;
    bool more = reply->action == DO_TRAIN || reply->action == DO_EVALUATE || s->env->keeps_own;
    if (more && (rc = pull(s, e)) < 0) {
        return rc;
    }
    if (reply->own_state && (rc = give_own_state(s, e)) < 0) {
        return rc;
    }
    if (s->waiting) {
        report(s);
    }
    out->action = (enum action)reply->action;
    out->slice = reply->slice;
    out->weight = (double)reply->slice.count;
    out->hint = reply->hint;
    tell_parts(s, out);
    out->batch = reply->batch;
    out->next_batch = reply->next_batch;
    out->learning_rate = reply->learning_rate;
    out->eval_first = reply->eval_first;
    out->eval_count = reply->eval_count;
    return 0;
}

void push_worker_bucket(struct strategy *base, const struct work *w, const struct dev_bucket *b,
                        int index, int n_buckets)
{
    const struct push_worker *s = (struct push_worker *)base;
    (void)w;
    (void)index;
    (void)n_buckets;
    device_buffer_fetch(&s->buffer, s->env->replica, DEV_GRADS, b->first, b->count, &base->failed);
}

/* The header goes last, because a server that has it waits for what it announces. */
static int push_gradient(struct push_worker *s, struct push_head *head, struct err *e)
{
    struct rank_env *env = s->env;
    struct dev_replica *r = env->replica;
    size_t n_stats = env->n_stats;
    int rc = n_stats > 0 ? r->dev->ops->fetch(r, DEV_STATS, 0, n_stats, e) : 0;
    if (rc < 0) {
        return rc;
    }
    begin_transfer(s, message_send, TAG_GRADIENT, device_buffer_block(&s->buffer, r, DEV_GRADS));
    rc = send_head(s, head, e);
    int rest = end_transfer(s, rc < 0 ? NULL : e);
    return rc < 0 ? rc : rest;
}

/* Clips each gradient, before any rule of the server. */
static void clip(const struct rank_env *env)
{
    float *g = env->replica->host[DEV_GRADS];
    double share = dev_clip(g, env->n_params, 1, env->spec->optimizer.clip_norm);
    for (size_t i = 0; share < 1 && i < env->n_params; i++) {
        g[i] = (float)(g[i] * share);
    }
}

/* Gives the slice back: with PUSH_RETURN, after which `next` pulls the newest weights, or because
 * the program has left. */
static int give_back(struct push_worker *s, const struct work *w, enum push_kind kind,
                     struct err *e)
{
    struct push_head head = {
        .kind = kind, .rank = s->env->comm->rank, .version = s->reply.version, .slice = w->slice};
    return send_head(s, &head, e);
}

int push_worker_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                          double compute_s, struct err *e)
{
    struct push_worker *s = (struct push_worker *)base;
    if (r->absent || r->leaves) {
        enum push_kind kind = r->early ? PUSH_QUIT : r->leaves ? PUSH_LEAVE : PUSH_RETURN;
        return give_back(s, w, kind, e);
    }
    struct rank_env *env = s->env;
    struct push_head head = {.kind = PUSH_GRADIENT,
                             .rank = env->comm->rank,
                             .version = s->reply.version,
                             .slice = w->slice,
                             .weight = w->weight,
                             .loss = isnan(r->loss) ? 0 : r->loss,
                             .correct = r->correct,
                             .compute_s = compute_s,
                             .learning_rate = w->learning_rate};
    float n = w->slice.count > 0 ? (float)w->slice.count : 1;
    s->row = row_blank();
    s->row.rank = (int16_t)env->comm->rank;
    s->row.local_step = ++s->local_step;
    s->row.batch = (int)w->slice.count;
    s->row.loss = (float)(r->loss / n);
    s->row.accuracy = (float)strategy_accuracy((double)r->correct, (double)n);
    s->row.compute_seconds = (float)compute_s;
    s->row.bytes = 2 * env->n_params * sizeof(float);
    s->pushed_at = comm_now(env->comm);
    s->waiting = true;
    clip(env);
    return push_gradient(s, &head, e);
}

int push_worker_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                          struct err *e)
{
    struct push_worker *s = (struct push_worker *)base;
    struct push_head head = {.kind = PUSH_EVALUATION,
                             .rank = s->env->comm->rank,
                             .version = s->reply.version,
                             .slice = {0, w->eval_first, w->eval_count},
                             .loss = r->loss,
                             .correct = r->correct};
    return send_head(s, &head, e);
}

int push_worker_finish(struct strategy *base, struct err *e)
{
    struct push_worker *s = (struct push_worker *)base;
    /* the server has everything else, and writes the states */
    return s->env->keeps_own ? give_own_state(s, e) : 0;
}

/* The worker's half of server strategies: push a gradient, get weights and the next slice.
 *
 *      worker   compute ──► push (gradient, slice) ─────►┐          ┌──► weights, next slice ──► compute …
 *      server                                            apply, version + 1
 *
 * Where MPI takes the device's pointers (near.c), the gradient is sent from its memory and weights
 * are received there; running statistics and headers are the host's. A gradient that is to be
 * clipped goes through the host, which measures it there.
 *
 * A worker never asks: the server's first reply comes by itself at the start. What a worker may not
 * do is hold a gradient while it evaluates: a test slice comes in place of a training slice
 * (SEMANTICS.md 4). */
#include "worker/exchange/push_worker.h"

#include <stdlib.h>
#include <string.h>

#include "worker/exchange/near.h"
#include "worker/exchange/push.h"
#include "worker/exchange/shard.h"

struct push_worker {
    struct strategy base;
    struct rank_env *env;
    struct near near; /* [n_params] weights, then the gradient on them */
    struct reply_head reply;
    struct part parts[2];
    struct message ranges[SERVERS_MOST];
    int64_t local_step;
    bool waiting; /* a gradient was pushed and is not answered */
    double pushed_at;
    struct step_row row; /* of the pushed gradient, but for what the reply tells */
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
    if (env->spec->optimizer.clip_norm <= 0) {
        near_open(&s->near, env, env->n_params, 0);
    }
    return &s->base;
}

void push_worker_free(struct strategy *base)
{
    near_close(&((struct push_worker *)base)->near);
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
    s->row.extra[0] = s->reply.strategy_value;
    s->row.wait_s = (float)parked;
    s->row.exchange_s = (float)(took - parked);
    s->waiting = false;
    env->row(env->ctx, &s->row);
}

/* A block range by range, from or to every server, and the running statistics, from or to the
 * first: all are under way at once, so that together they cost one latency. Who sends has a header
 * too: it goes last, because a server that has the header waits for what it announces. */
static int all_ranges(struct push_worker *s, int tag, float *block, struct push_head *head,
                      struct err *e)
{
    bool sending = head != NULL;
    struct comm *c = s->env->comm;
    size_t n = s->env->n_params, n_stats = s->env->n_stats;
    char none[SERVERS_MOST] = {0}, no_head = 0;
    struct message stats, announced;
    int rc = 0;
    for (int i = 0; i < c->servers; i++) {
        float *range = block ? block + shard_first(n, c->servers, i) : NULL;
        (sending ? message_send : message_recv)(&s->ranges[i], c, c->workers + i, tag, &none[i], 1,
                                                range, shard_count(n, c->servers, i));
    }
    if (n_stats > 0) {
        (sending ? message_send : message_recv)(&stats, c, c->workers, TAG_STATS, &no_head, 1,
                                                s->env->replica->host[DEV_STATS], n_stats);
    }
    if (sending) {
        message_send(&announced, c, c->workers, TAG_PUSH, head, sizeof *head, NULL, 0);
        rc = comm_wait(c, &announced.op, e);
    }
    for (int i = 0; i < c->servers; i++) {
        int one = comm_wait(c, &s->ranges[i].op, rc < 0 ? NULL : e);
        rc = rc < 0 ? rc : one;
    }
    int one = n_stats > 0 ? comm_wait(c, &stats.op, rc < 0 ? NULL : e) : 0;
    return rc < 0 ? rc : one;
}

static void stand_at(struct dev_replica *r, float *weights)
{
    if (r->dev->ops->stand_at) {
        r->dev->ops->stand_at(r, DEV_PARAMS, weights);
    }
}

/* Weights that the server lends are read where they are, if one piece is all of them. */
static void take_lent(struct push_worker *s, float *block)
{
    struct dev_replica *r = s->env->replica;
    int servers = s->env->comm->servers;
    for (int i = 0; i < servers; i++) {
        const struct message *m = &s->ranges[i];
        float *range = block + shard_first(s->env->n_params, servers, i);
        if (m->body != range && servers == 1 && r->dev->ops->stand_at) {
            stand_at(r, m->body);
        } else if (m->body != range) {
            memcpy(range, m->body, m->body_floats * sizeof(float));
        }
    }
}

static int pull(struct push_worker *s, struct err *e)
{
    size_t n = s->env->n_params, n_stats = s->env->n_stats;
    struct dev_replica *r = s->env->replica;
    float *block = s->near.dev ? s->near.memory : r->host[DEV_PARAMS];
    int rc = all_ranges(s, TAG_WEIGHTS, block, NULL, e);
    if (rc >= 0) {
        take_lent(s, block);
        rc = s->near.dev ? s->near.ops->store(r, DEV_PARAMS, 0, n, block, e)
                         : r->dev->ops->store(r, DEV_PARAMS, 0, n, e);
    }
    return rc < 0 || n_stats == 0 ? rc : r->dev->ops->store(r, DEV_STATS, 0, n_stats, e);
}

/* The slice and the one that is kept for this worker: without one nothing else will come. */
static void tell_parts(struct push_worker *s, struct work *out)
{
    const struct slice *now = &s->reply.slice, *next = &s->reply.hint;
    if (s->env->ahead == 0 || s->reply.action != DO_TRAIN) {
        return;
    }
    bool more = next->count > 0;
    s->parts[0] = (struct part){.slice = *now, .last = !more || next->epoch != now->epoch};
    s->parts[1] = (struct part){.slice = *next};
    out->parts = s->parts;
    out->n_parts = 1 + more;
}

int push_worker_next(struct strategy *base, struct work *out, struct err *e)
{
    struct push_worker *s = (struct push_worker *)base;
    struct rank_env *env = s->env;
    struct comm *c = env->comm;
    struct message head;
    double deadline = c->deadline;
    stand_at(env->replica, NULL);
    c->deadline =
        0; /* a parked worker waits as long as the others compute; heartbeats tell who is alive */
    message_recv(&head, c, c->workers, TAG_REPLY, &s->reply, sizeof s->reply, NULL, 0);
    int rc = comm_wait(c, &head.op, e);
    c->deadline = deadline;
    if (rc < 0) {
        return rc;
    }
    const struct reply_head *reply = &s->reply;
    bool more = reply->action == DO_TRAIN || reply->action == DO_EVALUATE;
    if (more) {
        rc = pull(s, e);
    }
    if (s->waiting) {
        report(s);
    }
    out->action = (enum action)reply->action;
    out->slice = reply->slice;
    out->hint = reply->hint;
    tell_parts(s, out);
    out->batch = reply->batch;
    out->next_batch = reply->next_batch;
    out->learning_rate = reply->learning_rate;
    out->eval_first = reply->eval_first;
    out->eval_count = reply->eval_count;
    return rc;
}

void push_worker_bucket(struct strategy *base, const struct dev_bucket *b, int index, int n_buckets)
{
    const struct push_worker *s = (struct push_worker *)base;
    struct dev_replica *r = s->env->replica;
    (void)index;
    (void)n_buckets;
    if (s->near.dev) {
        s->near.ops->fetch(r, DEV_GRADS, b->first, b->count, 1, s->near.memory + b->first,
                           &base->failed);
    } else {
        r->dev->ops->fetch(r, DEV_GRADS, b->first, b->count, &base->failed);
    }
}

static int push(struct push_worker *s, struct push_head *head, struct err *e)
{
    struct rank_env *env = s->env;
    struct comm *c = env->comm;
    struct dev_replica *r = env->replica;
    struct message m;
    int rc = head->kind == PUSH_GRADIENT && env->n_stats > 0
                 ? r->dev->ops->fetch(r, DEV_STATS, 0, env->n_stats, e)
                 : 0;
    if (head->kind == PUSH_GRADIENT) {
        return rc < 0 ? rc
                      : all_ranges(s, TAG_GRADIENT,
                                   s->near.dev ? s->near.memory : r->host[DEV_GRADS], head, e);
    }
    message_send(&m, c, c->workers, TAG_PUSH, head, sizeof *head, NULL, 0);
    return comm_wait(c, &m.op, e);
}

/* Clipping is per gradient, before any rule of the server's (SEMANTICS.md 1). */
static void clip(const struct rank_env *env)
{
    float *g = env->replica->host[DEV_GRADS];
    double share = dev_clip(g, env->n_params, 1, env->spec->optimizer.clip_norm);
    for (size_t i = 0; share < 1 && i < env->n_params; i++) {
        g[i] = (float)(g[i] * share);
    }
}

int push_worker_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                          double compute_s, struct err *e)
{
    struct push_worker *s = (struct push_worker *)base;
    struct rank_env *env = s->env;
    struct push_head head = {.kind = PUSH_GRADIENT,
                             .rank = env->comm->rank,
                             .version = s->reply.version,
                             .slice = w->slice,
                             .loss = r->loss,
                             .correct = r->correct,
                             .compute_s = compute_s,
                             .learning_rate = w->learning_rate};
    float n = w->slice.count > 0 ? (float)w->slice.count : 1;
    s->row = (struct step_row){.rank = env->comm->rank,
                               .local_step = ++s->local_step,
                               .batch = (int)w->slice.count,
                               .loss = (float)(r->loss / n),
                               .accuracy = (float)r->correct / n,
                               .compute_s = (float)compute_s,
                               .bytes = 2 * env->n_params * sizeof(float)};
    s->pushed_at = comm_now(env->comm);
    s->waiting = true;
    clip(env);
    return push(s, &head, e);
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
    return push(s, &head, e);
}

int push_worker_finish(struct strategy *base, struct err *e)
{
    (void)base;
    (void)e;
    return 0; /* the server has everything and writes the states */
}

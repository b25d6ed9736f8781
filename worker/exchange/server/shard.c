/* Ranges of the flat block on further servers: see shard.h. An order to apply names a worker, whose
 * gradient is then received; gradients of other workers that came earlier wait in the transport. */
#include "worker/exchange/server/shard.h"

#include <stdlib.h>
#include <string.h>

size_t shard_first(size_t n, int servers, int index)
{
    return n / (size_t)servers * (size_t)index +
           (n % (size_t)servers < (size_t)index ? n % (size_t)servers : (size_t)index);
}

size_t shard_count(size_t n, int servers, int index)
{
    return shard_first(n, servers, index + 1) - shard_first(n, servers, index);
}

/* ---- the first server's side ----------------------------------------------------------------- */

int shard_order(struct comm *c, const struct order *order, struct err *e)
{
    int rc = 0;
    for (int i = 1; i < c->servers && rc >= 0; i++) {
        struct message m;
        struct order copy = *order;
        message_send(&m, c, c->workers + i, TAG_ORDER, &copy, sizeof copy, NULL, 0);
        rc = comm_wait(c, &m.op, e);
    }
    return rc;
}

static int take(struct comm *c, int from, float *into, size_t n, struct err *e)
{
    struct message m;
    char none;
    message_recv(&m, c, from, TAG_STATE_RANGE, &none, 1, into, n);
    return comm_wait(c, &m.op, e);
}

int shard_collect(struct comm *c, float *params, float *optim, size_t n, int blocks, struct err *e)
{
    int rc = 0;
    for (int i = 1; i < c->servers && rc >= 0; i++) {
        size_t first = shard_first(n, c->servers, i), count = shard_count(n, c->servers, i);
        rc = take(c, c->workers + i, params + first, count, e);
        for (int b = 0; b < blocks && rc >= 0; b++) {
            rc = take(c, c->workers + i, optim + (size_t)b * n + first, count, e);
        }
    }
    return rc;
}

/* ---- a further server's side ----------------------------------------------------------------- */

struct shard {
    struct rank_env *env;
    struct updates updates;
    float *g;              /* [count] the gradient of the push under way */
    struct version *aside; /* the weights under evaluation */
    struct version **held; /* [workers] the weights that each worker has or receives */
    struct message *sent;  /* [workers] */
    bool *sending;
    size_t count;
};

static int init(struct shard *s, const struct server_policy *policy, const struct run_state *from,
                struct err *e)
{
    struct comm *c = s->env->comm;
    int W = c->workers, index = c->rank - W;
    size_t n = s->env->n_params;
    s->count = shard_count(n, c->servers, index);
    s->g = malloc(s->count * sizeof(float) + 1);
    s->held = calloc((size_t)W, sizeof *s->held);
    s->sent = calloc((size_t)W, sizeof *s->sent);
    s->sending = calloc((size_t)W, sizeof *s->sending);
    if (!s->g || !s->held || !s->sent || !s->sending) {
        return err_set(e, ERR_MEMORY, "cannot serve %zu parameters: memory ran out", s->count);
    }
    return updates_init(&s->updates, policy, s->env, shard_first(n, c->servers, index), s->count,
                        from, e);
}

static void release(struct shard *s)
{
    updates_release(&s->updates);
    free(s->held);
    free(s->sent);
    free(s->sending);
    free(s->g);
}

static int settle_sent(struct shard *s, int rank, struct err *e)
{
    int rc = s->sending[rank] ? comm_wait(s->env->comm, &s->sent[rank].op, e) : 0;
    s->sending[rank] = false;
    return rc;
}

static int apply(struct shard *s, const struct order *o, struct err *e)
{
    struct message m;
    char none;
    message_recv(&m, s->env->comm, o->push.rank, TAG_GRADIENT, &none, 1, s->g, s->count);
    int rc = comm_wait(s->env->comm, &m.op, e);
    if (rc >= 0) {
        updates_add(&s->updates, m.body, s->held[o->push.rank]->w, o->push.weight,
                    o->push.slice.count, o->push.learning_rate, o->tau);
    }
    return rc;
}

static int send_weights(struct shard *s, int rank, struct version *weights, struct err *e)
{
    static char none;
    int rc = settle_sent(s, rank, e);
    if (rc >= 0) {
        updates_hold(&s->updates, &s->held[rank], weights);
        message_send(&s->sent[rank], s->env->comm, rank, TAG_WEIGHTS, &none, 1, weights->w,
                     s->count);
        s->sending[rank] = true;
    }
    return rc;
}

static int give_state(struct shard *s, float *weights, struct err *e)
{
    struct comm *c = s->env->comm;
    char none = 0;
    int blocks = s->count > 0 ? (int)(s->updates.n_optim / s->count) : 0, rc = 0;
    s->env->aside(s->env->ctx, true);
    for (int b = -1; b < blocks && rc >= 0; b++) {
        struct message m;
        message_send(&m, c, c->workers, TAG_STATE_RANGE, &none, 1,
                     b < 0 ? weights : s->updates.optim + (size_t)b * s->count, s->count);
        rc = comm_wait(c, &m.op, e);
    }
    s->env->aside(s->env->ctx, false);
    return rc;
}

static int obey(struct shard *s, const struct order *o, struct err *e)
{
    int rc = 0;
    switch ((enum order_kind)o->kind) {
    case ORDER_APPLY:
        return apply(s, o, e);
    case ORDER_FLUSH:
        updates_flush(&s->updates);
        return 0;
    case ORDER_SEND:
        return send_weights(s, o->rank, s->updates.now, e);
    case ORDER_SEND_EVAL:
        s->env->aside(s->env->ctx, true);
        rc = send_weights(s, o->rank, s->aside, e);
        s->env->aside(s->env->ctx, false);
        return rc;
    case ORDER_SET_ASIDE:
        updates_hold(&s->updates, &s->aside, s->updates.now);
        return 0;
    case ORDER_STATE:
        return give_state(s, s->updates.now->w, e);
    case ORDER_STATE_EVAL:
        return give_state(s, s->aside->w, e);
    case ORDER_END:
        break;
    }
    return 0;
}

static int take_order(struct shard *s, struct order *order, struct err *e)
{
    struct rank_env *env = s->env;
    struct message m;
    int rc;
    message_recv(&m, env->comm, env->comm->workers, TAG_ORDER, order, sizeof *order, NULL, 0);
    if ((rc = comm_wait(env->comm, &m.op, e)) < 0 || (rc = obey(s, order, e)) < 0) {
        return rc;
    }
    if (env->served) {
        env->served(env->ctx, s->updates.version, 0);
    }
    return 0;
}

int shard_serve(const struct server_policy *policy, struct rank_env *env,
                const struct run_state *from, struct err *e)
{
    struct shard s = {.env = env};
    struct order order = {0};
    double deadline = env->comm->deadline;
    env->comm->deadline =
        0; /* the next order may take long; heartbeats show which ranks are alive */
    int rc = init(&s, policy, from, e);
    while (rc >= 0 && order.kind != ORDER_END) {
        rc = take_order(&s, &order, e);
    }
    for (int i = 0; rc >= 0 && i < env->comm->workers; i++) {
        rc = settle_sent(&s, i, e);
    }
    env->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(env->comm); /* memory of messages to workers is freed next */
    }
    release(&s);
    return rc < 0 ? rc : order.outcome;
}

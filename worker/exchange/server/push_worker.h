/* The worker's half of every server strategy (push_worker.c); server.c is the other. */
#ifndef WORKER_EXCHANGE_PUSH_WORKER_H
#define WORKER_EXCHANGE_PUSH_WORKER_H

#include "worker/exchange/server/server.h"

struct strategy *push_worker_start(const struct strategy_ops *ops, struct rank_env *env,
                                   struct err *e);
void push_worker_free(struct strategy *s);
int push_worker_next(struct strategy *s, struct work *out, struct err *e);
void push_worker_bucket(struct strategy *s, const struct dev_bucket *b, int index, int n_buckets);
int push_worker_gradients(struct strategy *s, const struct work *w, const struct dev_result *r,
                          double compute_s, struct err *e);
int push_worker_evaluated(struct strategy *s, const struct work *w, const struct dev_result *r,
                          struct err *e);
int push_worker_finish(struct strategy *s, struct err *e);

/* What the ops of all server strategies have in common; `id`, `start` and `serve` are their own. */
#define PUSH_WORKER_OPS                                                           \
    .server = true, .next = push_worker_next, .on_bucket = push_worker_bucket,    \
    .on_gradients = push_worker_gradients, .on_evaluated = push_worker_evaluated, \
    .finish = push_worker_finish, .free = push_worker_free

/* Defines start and serve of a server strategy from its policy, and its ops as strategy_NAME. */
#define SERVER_STRATEGY(name, cat)                                                       \
    static struct strategy *start(struct rank_env *env, const struct run_state *state,   \
                                  struct err *e)                                         \
    {                                                                                    \
        (void)state; /* weights come with the server's first answer */                   \
        return push_worker_start(&strategy_##name, env, e);                              \
    }                                                                                    \
    static int serve(struct rank_env *env, const struct run_state *state, struct err *e) \
    {                                                                                    \
        return server_serve(&policy, env, state, e);                                     \
    }                                                                                    \
    const struct strategy_ops strategy_##name = {                                        \
        .id = cat, .start = start, .serve = serve, PUSH_WORKER_OPS}

#endif

/* The worker's half of every server strategy (push_worker.c); server.c is the other. */
#ifndef WORKER_EXCHANGE_PUSH_WORKER_H
#define WORKER_EXCHANGE_PUSH_WORKER_H

#include "worker/exchange/server/server.h"

struct strategy *push_worker_start(const struct strategy_ops *ops, struct rank_env *env,
                                   struct err *e);
void push_worker_free(struct strategy *s);
int push_worker_next(struct strategy *s, struct work *out, struct err *e);
void push_worker_bucket(struct strategy *s, const struct work *w, const struct dev_bucket *b,
                        int index, int n_buckets);
int push_worker_gradients(struct strategy *s, const struct work *w, const struct dev_result *r,
                          double compute_s, struct err *e);
int push_worker_evaluated(struct strategy *s, const struct work *w, const struct dev_result *r,
                          struct err *e);
int push_worker_finish(struct strategy *s, struct err *e);

/* Defines the strategy of the catalogue's line IDENT from its policy, the file's `policy`. */
#define SERVER_STRATEGY(ident)                                                           \
    static struct strategy *start(struct rank_env *env, const struct run_state *state,   \
                                  struct err *e)                                         \
    {                                                                                    \
        (void)state; /* weights come with the server's first answer */                   \
        return push_worker_start(&strategy_##ident, env, e);                             \
    }                                                                                    \
    static int serve(struct rank_env *env, const struct run_state *state, struct err *e) \
    {                                                                                    \
        return server_serve(&policy, env, state, e);                                     \
    }                                                                                    \
    static void footprint(struct footprint *f)                                           \
    {                                                                                    \
        server_footprint(&policy, f);                                                    \
    }                                                                                    \
    const struct strategy_ops strategy_##ident = {.id = CAT_STRATEGY_##ident,            \
                                                  .server = true,                        \
                                                  .program = &policy.program,            \
                                                  .start = start,                        \
                                                  .next = push_worker_next,              \
                                                  .on_bucket = push_worker_bucket,       \
                                                  .on_gradients = push_worker_gradients, \
                                                  .on_evaluated = push_worker_evaluated, \
                                                  .finish = push_worker_finish,          \
                                                  .free = push_worker_free,              \
                                                  .serve = serve,                        \
                                                  .footprint = footprint}

#endif

/* The worker's half of every server strategy (push_worker.c); server.c is the other. */
#ifndef WORKER_EXCHANGE_PUSH_WORKER_H
#define WORKER_EXCHANGE_PUSH_WORKER_H

#include "worker/exchange/strategies.h"

struct strategy *push_worker_start(const struct strategy_ops *ops, struct rank_env *env, struct err *e);
void push_worker_free(struct strategy *s);
int push_worker_next(struct strategy *s, struct work *out, struct err *e);
void push_worker_bucket(struct strategy *s, const struct dev_bucket *b, int index, int n_buckets);
int push_worker_gradients(struct strategy *s, const struct work *w, const struct dev_result *r, double compute_s, struct err *e);
int push_worker_evaluated(struct strategy *s, const struct work *w, const struct dev_result *r, struct err *e);
int push_worker_finish(struct strategy *s, struct err *e);

#endif

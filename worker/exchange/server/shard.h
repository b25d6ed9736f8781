/* Sharded servers (docs/semantics.md#ranks): the flat block is cut into one range per server rank.
 * Only the first server (rank W) hands out slices, numbers the pushes and decides; the others own a
 * range each and follow its orders, in its order.
 *
 *      worker    gradient ─┬─ range 0 ─► server W     numbers it, answers it ─┐
 *                          ├─ range 1 ─► server W+1 ◄── order: apply, send ───┤
 *                          └─ range 2 ─► server W+2 ◄── order: apply, send ───┘
 *
 * Weights come back range by range.
 *
 * So every range sees the same versions in the same order, and an element's result does not depend
 * on how many servers there are. Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_SHARD_H
#define WORKER_EXCHANGE_SHARD_H

#include "worker/exchange/server/push.h"
#include "worker/exchange/server/updates.h"

enum order_kind {
    ORDER_APPLY,      /* take `push.rank`'s gradient and add it, `tau` versions old */
    ORDER_FLUSH,      /* apply the group that was left incomplete */
    ORDER_SEND,       /* send `rank` the newest weights */
    ORDER_SEND_EVAL,  /* send `rank` the weights under evaluation */
    ORDER_SET_ASIDE,  /* the newest weights are those under evaluation from now on */
    ORDER_STATE,      /* send the first server weights and state */
    ORDER_STATE_EVAL, /* the same with the weights under evaluation */
    ORDER_END
};

struct order {
    int32_t kind, rank;
    int32_t outcome; /* enum run_outcome, of ORDER_END */
    int64_t tau;
    struct push_head push;
};

/* The range of server `index` of `servers`, of n floats. */
size_t shard_first(size_t n, int servers, int index);
size_t shard_count(size_t n, int servers, int index);
/* The first server sends an order to all others. */
int shard_order(struct comm *c, const struct order *order, struct err *e);
/* The first server receives, after ORDER_STATE, the others' ranges into params[n] and
 * optim[blocks][n]. It fills in its own range itself. */
int shard_collect(struct comm *c, float *params, float *optim, size_t n, int blocks, struct err *e);
/* Runs a further server until the job ends: see strategy_ops.serve. */
int shard_serve(const struct server_policy *policy, struct rank_env *env,
                const struct run_state *from, struct err *e);

#endif

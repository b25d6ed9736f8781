/* Strategy `dbs-sgd` (Ji, Zhang, Fu, Gao, Li 2019): minibatches follow each node's measured speed,
 * so that all nodes need the same time for a gradient. Gradients are exchanged as in asgd (c = 1)
 * or softsync. What is new is the batching policy, `dynamic` (job/minibatch/assign.c); every sample
 * has the same weight by default. The staleness of every node becomes W - 1 with c = 1, and about 1
 * with c = W. */
#include "worker/exchange/server/softsync.h"

static int group(const struct rank_env *env)
{
    const struct strategy_spec *s = &env->spec->strategy;
    int W = strategy_workers(env), c = s->n > 0 ? W / s->n : s->c;
    return c < 1 ? 1 : c > W ? W : c; /* fewer workers may remain */
}

static const struct server_policy policy = {
    .group = group, .blocking = softsync_blocking, .factor = softsync_factor};

SERVER_STRATEGY(DBS_SGD);

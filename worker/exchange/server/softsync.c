/* Strategy `softsync` (n-softsync: Gupta et al. 2015; Zhang, Gupta, Lian, Liu 2016): the first c =
 * floor(W/n) gradients that arrive make an update together, whichever workers sent them.
 *
 *   n = W: c = 1, which is asgd      n = 1: c = W, and with a blocking pull it is sync
 *
 * The learning rate may be divided by n, or each gradient's by its own staleness. With a free pull
 * the staleness is (W-1)/c on average, with a blocking one W/c - 1
 * (docs/semantics.md#staleness). */
#include "worker/exchange/server/softsync.h"

static int group(const struct rank_env *env)
{
    int c = strategy_workers(env) / env->spec->strategy.n;
    return c > 0 ? c : 1; /* fewer workers than n may be left */
}

bool softsync_blocking(const struct rank_env *env)
{
    return env->spec->strategy.pull == PULL_BLOCKING;
}

double softsync_factor(const struct jobspec *spec, double factor, int64_t tau)
{
    const struct strategy_spec *s = &spec->strategy;
    switch (s->rate) {
    case RATE_TAU:
        return factor / (tau > 1 ? (double)tau : 1);
    case RATE_N:
        return s->n > 0 ? factor / s->n : factor;
    case RATE_FIXED:
        break;
    }
    return factor;
}

static const struct server_policy policy = {
    .group = group, .blocking = softsync_blocking, .factor = softsync_factor};

SERVER_STRATEGY(SOFTSYNC);

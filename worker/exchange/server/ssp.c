/* Strategy `ssp` (stale synchronous parallel, Ho et al. 2013): asgd, but a worker's clock (its own
 * pushes) may be at most s ahead of the slowest worker's; one that is further ahead waits, and then
 * gets the newest weights and a fresh slice.
 *
 *      clock   fast  0 1 2 3 ┆ waits      s = 3: staleness is bounded by (2s+1)(W-1)
 *              slow  0 ──────┘ 1          workers that have ended do not count  */
#include "worker/exchange/server/push_worker.h"

static int lead(const struct rank_env *env)
{
    return (int)strategy_param(&env->spec->strategy, "s");
}

static const struct server_policy policy = {.lead = lead};

SERVER_STRATEGY(SSP);

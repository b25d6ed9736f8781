/* Strategy `local-sgd` (K-AVG(K), Zhou & Cong 2018): every worker steps by itself, and parameters
 * are averaged over all workers every k steps. With k = 1 and plain SGD an average is what `sync`
 * does. */
#include "worker/exchange/lockstep/averaging.h"

static enum average after(const struct jobspec *spec, int64_t step, double epoch)
{
    int k = (int)strategy_param(&spec->strategy, "k");
    (void)epoch;
    return step % k == 0 ? AVERAGE_ALL : AVERAGE_NONE;
}

static const struct averaging_policy policy = {.after = after};

AVERAGING_STRATEGY(LOCAL_SGD);

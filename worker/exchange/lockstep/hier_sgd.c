/* Strategy `hier-sgd` (Hier-AVG(K1, K2, S), Cong et al.): averages inside groups of workers, whose
 * links are fast, every k1 steps, and over all workers every k2.
 *
 *      step          1    2    3    4    5    6    7    8            k1 = 2, k2 = 4, two groups
 *      group 0     ──┼────╫────┼────█────┼────╫────┼────█──          ╫ average inside the group
 *      group 1     ──┼────╫────┼────█────┼────╫────┼────█──          █ average over all workers */
#include "worker/exchange/lockstep/averaging.h"

static enum average after(const struct jobspec *spec, int64_t step, double epoch)
{
    int k1 = (int)strategy_param(&spec->strategy, "k1");
    int k2 = (int)strategy_param(&spec->strategy, "k2");
    (void)epoch;
    return step % k2 == 0 ? AVERAGE_ALL : step % k1 == 0 ? AVERAGE_GROUP : AVERAGE_NONE;
}

static const struct averaging_policy policy = {.after = after, .groups = true};

AVERAGING_STRATEGY(HIER_SGD);

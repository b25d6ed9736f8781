/* What strategies share: see strategy.h. The table of them is strategy_table.c. */
#include "worker/exchange/strategy.h"

#include <math.h>

int strategy_workers(const struct rank_env *env)
{
    return env->comm->workers - env->n_lost;
}

double strategy_accuracy(double correct, double samples)
{
    return correct < 0 ? NAN : correct / samples;
}

double strategy_score(double accuracy, double loss)
{
    return !isnan(accuracy) ? accuracy : !isnan(loss) ? -loss : -INFINITY;
}

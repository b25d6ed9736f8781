/* The table of strategies, one for each line of the catalogue (strategy_table.h), and helpers that
 * they share. */
#include "worker/exchange/strategy.h"

#include <math.h>

#include "worker/exchange/strategy_table.h"

static const struct strategy_ops *const table[CAT_COUNT] = {
#define ROW(ident) [CAT_STRATEGY_##ident] = &strategy_##ident,
#define ENTRY(kind, ident, name, help, params) STRATEGIES_OF_##kind(ROW, ident)
#include "job/spec/catalog.def"
#undef ENTRY
#undef ROW
};

const struct strategy_ops *strategy_find(int id)
{
    return id >= 0 && id < CAT_COUNT ? table[id] : NULL;
}

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

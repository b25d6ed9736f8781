/* The table of strategies: one line each. */
#include "worker/exchange/strategies.h"

static const struct strategy_ops *const table[] = {
    &strategy_sync,      &strategy_asgd,     &strategy_softsync, &strategy_ssp,
    &strategy_dc_asgd,   &strategy_dc_asgdk, &strategy_ddc_asgd, &strategy_dbs_sgd,
    &strategy_local_sgd, &strategy_hier_sgd, &strategy_hpsgd,
};

const struct strategy_ops *strategy_find(int id)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i]->id == id) {
            return table[i];
        }
    }
    return NULL;
}

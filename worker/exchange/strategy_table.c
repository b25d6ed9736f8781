/* The table of strategies: see strategy_table.h. */
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

/* What the checks of several strategies share: see strategies.h. */
#include "job/strategies/strategies.h"

#include <string.h>

double strategy_param(const struct strategy_spec *s, const char *name)
{
    const struct catalog_param *params = catalog_get(s->type)->params;
    int i = 0;
    while (params[i].name != NULL && strcmp(params[i].name, name) != 0) {
        i++;
    }
    BUG_ON(params[i].name == NULL);
    return s->values[i];
}

void strategy_no_momentum(const struct jobspec *spec, struct jsonx_problems *problems,
                          const char *why)
{
    if (spec->optimizer.momentum > 0) {
        jsonx_problem(problems, "/optimizer/momentum", why, catalog_get(spec->strategy.type)->name);
    }
}

void strategy_group_fits(const struct jobspec *spec, struct jsonx_problems *problems)
{
    if (spec->strategy.n > spec->workers) {
        jsonx_problem(problems, "/strategy/n", "'n' %d is more than the %d workers",
                      spec->strategy.n, spec->workers);
    }
}

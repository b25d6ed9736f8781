/* What `hpsgd` requires of a job spec: its local step is plain SGD. */
#include "job/strategies/strategies.h"

void hpsgd_check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    strategy_no_momentum(spec, problems, "'%s' has no momentum");
    if (spec->optimizer.type != CAT_OPTIMIZER_SGD) {
        jsonx_problem(problems, "/optimizer/type", "'%s' offers 'sgd' only",
                      catalog_get(spec->strategy.type)->name);
    }
}

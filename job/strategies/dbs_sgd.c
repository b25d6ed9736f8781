/* What `dbs-sgd` requires of a job spec: a group of c gradients, given as c or as n, that fits. */
#include "job/strategies/strategies.h"

void dbs_sgd_check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    int c = spec->strategy.c, n = spec->strategy.n, W = spec->workers;
    strategy_group_fits(spec, problems);
    if (c > W) {
        jsonx_problem(problems, "/strategy/c", "'c' %d is more than the %d workers", c, W);
    } else if (c > 1 && n > 0 && n <= W && c != W / n) {
        jsonx_problem(problems, "/strategy/c", "'c' is %d, but 'n' %d of %d workers makes it %d", c,
                      n, W, W / n);
    }
}

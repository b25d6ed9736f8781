/* What `ddc-asgd` requires of a job spec: its momentum is its own, and has a gap in its range. */
#include "job/strategies/strategies.h"

void ddc_asgd_check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    double mu = strategy_param(&spec->strategy, "mu");
    if (mu < 0 && mu != -1) {
        jsonx_problem(
            problems, "/strategy/mu",
            "'mu' must be from 0 to below 1, or -1 for the number of workers to decide, not %g",
            mu);
    }
    strategy_no_momentum(spec, problems, "'%s' has a momentum of its own");
}

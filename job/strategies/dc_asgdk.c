/* What `dc-asgdk` requires of a job spec. */
#include "job/strategies/strategies.h"

void dc_asgdk_check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    strategy_no_momentum(spec, problems, "'%s' has a momentum of its own");
}

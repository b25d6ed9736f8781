/* What `softsync` requires of a job spec. */
#include "job/strategies/strategies.h"

void softsync_check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    strategy_group_fits(spec, problems);
}

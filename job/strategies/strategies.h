/* What strategies require of the rest of a job spec, beyond the ranges of their parameters. A
 * strategy with such requirements has a file here with its check, which the line CHECK of
 * job/spec/catalog.def names. Inside job/ only. */
#ifndef JOB_STRATEGIES_H
#define JOB_STRATEGIES_H

#include "job/spec/parts.h"

/* Reports every mistake. The spec's other sections have been read. */
typedef void strategy_check_fn(const struct jobspec *spec, struct jsonx_problems *problems);

#define ENTRY(kind, ident, name, help, params)
#define CHECK(ident, function) strategy_check_fn function;
#include "job/spec/catalog.def"
#undef ENTRY

/* ---- what several checks ask for ------------------------------------------------------------- */

/* `why`: the sentence of a spec with momentum, with %s for the strategy's name. */
void strategy_no_momentum(const struct jobspec *spec, struct jsonx_problems *problems,
                          const char *why);
/* `n` gradients make an update together: no more than there are workers. */
void strategy_group_fits(const struct jobspec *spec, struct jsonx_problems *problems);

#endif

/* The strategies of the catalogue, by their identifiers there: a line ENTRY(STRATEGY, ASGD, …) in
 * job/spec/catalog.def names `strategy_ASGD`, which a file of lockstep/ or server/ defines. A line
 * without such a file does not link. Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_STRATEGY_TABLE_H
#define WORKER_EXCHANGE_STRATEGY_TABLE_H

#include "worker/exchange/strategy.h"

#define STRATEGIES_OF_STRATEGY(X, ident) X(ident)
#define STRATEGIES_OF_BATCHING(X, ident)
#define STRATEGIES_OF_OPTIMIZER(X, ident)
#define STRATEGIES_OF_SCHEDULE(X, ident)
#define STRATEGIES_OF_LAYER(X, ident)
#define STRATEGIES_OF_FORMAT(X, ident)
#define STRATEGIES_OF_AUGMENT(X, ident)
#define STRATEGIES_OF_DEVICE(X, ident)

#define DECLARE(ident) extern const struct strategy_ops strategy_##ident;
#define ENTRY(kind, ident, name, help, params) STRATEGIES_OF_##kind(DECLARE, ident)
#include "job/spec/catalog.def"
#undef ENTRY
#undef DECLARE

#endif

/* Shared by strategies whose catalogue line has SOFTSYNC_PARAMS: `rate` and `pull`. */
#ifndef WORKER_EXCHANGE_SOFTSYNC_H
#define WORKER_EXCHANGE_SOFTSYNC_H

#include "worker/exchange/server/push_worker.h"

/* server_policy.blocking: `pull` is blocking. */
bool softsync_blocking(const struct rank_env *env);
/* server_policy.factor: follows `rate`. */
double softsync_factor(const struct jobspec *spec, double factor, int64_t tau);

#endif

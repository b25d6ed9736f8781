/* Strategy `dc-asgdk`: the momentum that asynchrony brings with it, 1 - 1/W (Mitliagkas et al.
 * 2016), made explicit and bound to the number of workers (MDC-ASGD):
 *
 *   d <- (1 - 1/W)*d - (1/W)*eta*g        w <- w + d        kernels/rules/trust.h */
#include "worker/exchange/server/push_worker.h"

static void parameters(const struct rank_env *env, struct rule_args *a)
{
    double W = strategy_workers(env);
    a->p0 = (float)((W - 1) / W);
    a->p1 = (float)(1 / W);
}

static const struct server_policy policy = {
    .rule = RULE_TRUST,
    .parameters = parameters,
    .own_velocity = true,
    .compensates = true,
    .program = {.momentum = MOMENTUM_OWN, .gradients_only = true}};

SERVER_STRATEGY(DC_ASGDK);

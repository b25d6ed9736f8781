/* Strategy `ddc-asgd` (Qu 2021, NMDC-ASGD): the weights of the previous step and of the new
 * gradient follow from the delay tau of each gradient:
 *
 *   d <- tau/(tau+q) * d - q/(tau+q) * eta*g        w <- w + d
 *
 * with q = 1/(1-mu), by default max(1, W-1).
 *
 * A gradient without delay is plain SGD; one with a very long delay has almost no weight. Rule:
 * kernels/rules/trust.h. */
#include "worker/exchange/server/push_worker.h"

static void parameters(const struct rank_env *env, struct rule_args *a)
{
    double W = strategy_workers(env), others = W > 1 ? W - 1 : 1, tau = (double)a->tau;
    double mu = strategy_param(&env->spec->strategy, "mu"), q = mu >= 0 ? 1 / (1 - mu) : others;
    a->p0 = (float)(tau / (tau + q));
    a->p1 = (float)(q / (tau + q));
}

static const struct server_policy policy = {
    .rule = RULE_TRUST,
    .parameters = parameters,
    .own_velocity = true,
    .compensates = true,
    .program = {.momentum = MOMENTUM_OWN, .gradients_only = true}};

SERVER_STRATEGY(DDC_ASGD);

/* Strategy `dc-asgd` (Zheng et al., ICML 2017): asgd whose server corrects each gradient for the
 * change of the weights since the worker pulled them: kernels/rules/dc_asgd.h. The server keeps the
 * weights that each worker pulled, and one mean square if `adaptive`. */
#include "worker/exchange/server/push_worker.h"

static void parameters(const struct rank_env *env, struct rule_args *a)
{
    const struct strategy_spec *s = &env->spec->strategy;
    a->p0 = (float)strategy_param(s, "lambda");
    a->p1 = (float)strategy_param(s, "m");
    a->p2 = (float)strategy_param(s, "eps");
}

static bool adaptive(const struct jobspec *spec)
{
    return strategy_param(&spec->strategy, "adaptive") != 0;
}

static const struct server_policy policy = {.rule = RULE_DC_ASGD,
                                            .parameters = parameters,
                                            .mean_square = adaptive,
                                            .compensates = true,
                                            .program = {.gradients_only = true}};

SERVER_STRATEGY(DC_ASGD);

/* Rule `dc_asgd`: delay compensation by a first-order Taylor term (Zheng et al., ICML 2017).
 *
 *   h = g + lambda_t * g*g * (w - w_pulled)      w_pulled: the version that the worker computed on
 *
 *   constant    lambda_t = lambda
 *   adaptive    ms <- m*ms + (1-m)*g*g;  lambda_t = lambda / sqrt(ms + eps)
 *               one mean square ms at the server
 *
 * then the plain step of rules/sgd.h with h in place of g. With lambda = 0 it is that step, bit for
 * bit. The compensation works on the raw gradient: decay, factor and momentum come after it.
 */
#ifndef KERNELS_RULES_DC_ASGD_H
#define KERNELS_RULES_DC_ASGD_H

#include <math.h>

#include "kernels/rules/sgd.h"

RNG_FN float rule_dc(float w, float pulled, float g, float lambda)
{
    return g + lambda * (g * g) * (w - pulled);
}

RNG_FN float rule_dc_adaptive(float w, float pulled, float *ms, float g, float lambda, float m,
                              float eps)
{
    *ms = m * *ms + (1.0f - m) * (g * g);
    float square = *ms + eps;
    return rule_dc(w, pulled, g,
                   lambda /
                       /* eps may be 0, and so may every gradient until now */
                       sqrtf(square > 1e-37f ? square : 1e-37f));
}

#endif

/* Rule `trust`: weighs the kept step d against the incoming gradient.
 *
 *   d <- keep*d - take*(lr*u)        w <- w + d        u = factor*(g + decay*w)
 *
 * `dc-asgdk` binds the two to the number of workers: keep = (W-1)/W, take = 1/W. `ddc-asgd` to the
 * delay of each gradient: keep = tau/(tau+q), take = q/(tau+q). With keep 0 and take 1 (no delay)
 * it is the plain step. The coefficients are worked out in double by the strategy and rounded once.
 */
#ifndef KERNELS_RULES_TRUST_H
#define KERNELS_RULES_TRUST_H

#include "common/rng.h" /* RNG_FN */

RNG_FN void rule_trust(float *w, float *d, float g, float decay, float lr, float factor, float keep,
                       float take)
{
    float u = factor * (g + decay * *w);
    *d = keep * *d - take * (lr * u);
    *w += *d;
}

#endif

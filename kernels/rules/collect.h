/* Rule `collect`: gradients that make one update together are summed first (softsync).
 *
 *   sum <- sum + factor*(g + decay*w)        w does not move before the group is complete
 */
#ifndef KERNELS_RULES_COLLECT_H
#define KERNELS_RULES_COLLECT_H

#include "common/rng.h" /* RNG_FN */

RNG_FN void rule_collect(float *sum, float w, float g, float decay, float factor)
{
    *sum += factor * (g + decay * w);
}

#endif

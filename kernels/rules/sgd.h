/* Rule `sgd`: the plain server step with momentum (asgd, softsync, ssp).
 *
 *   v <- momentum*v + factor*(g + decay*w)          w <- w - lr*v
 *
 * The weights of weight decay are the server's at that moment, under the same factor. Written in
 * what C11 and CUDA have in common: kernels/cpu/rule.c and kernels/cuda/rule.cu make kernels of it.
 */
#ifndef KERNELS_RULES_SGD_H
#define KERNELS_RULES_SGD_H

#include "common/rng.h" /* RNG_FN */

RNG_FN void rule_sgd(float *w, float *v, float g, float decay, float lr, float factor,
                     float momentum)
{
    float u = factor * (g + decay * *w);
    if (v) {
        *v = momentum * *v + u;
        u = *v;
    }
    *w -= lr * u;
}

#endif

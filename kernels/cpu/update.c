/* The optimizer's step over the flat block: one pass over parameters, gradients and state. Weight decay differs by tensor,
 * so the pass goes tensor by tensor.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

CPU_CLONES static void sgd(float *restrict w, const float *restrict g, float lr, float scale, float decay, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= lr * (scale * g[i] + decay * w[i]);
    }
}

CPU_CLONES static void sgd_momentum(float *restrict w, float *restrict v, const float *restrict g, float lr, float scale,
                                    float decay, float momentum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        v[i] = momentum * v[i] + (scale * g[i] + decay * w[i]);
        w[i] -= lr * v[i];
    }
}

int cpu_update(struct dev_replica *r, double lr, double scale, struct err *e)
{
    const struct optimizer_spec *o = &r->optimizer;
    float *w = r->host[DEV_PARAMS], *v = r->host[DEV_OPTIM];
    const float *g = r->host[DEV_GRADS];
    for (int t = 0; t < r->net->n_tensors; t++) {
        const struct tensor *tensor = &r->net->tensors[t];
        float decay = tensor->decay ? (float)o->weight_decay : 0;
#pragma omp parallel if (tensor->count > 65536)
        {
            size_t first, last;
            pointwise_share(tensor->count, &first, &last);
            size_t at = tensor->first + first, n = last - first;
            if (r->count[DEV_OPTIM] > 0) {
                sgd_momentum(w + at, v + at, g + at, (float)lr, (float)scale, decay, (float)o->momentum, n);
            } else {
                sgd(w + at, g + at, (float)lr, (float)scale, decay, n);
            }
        }
    }
    return 0;
}

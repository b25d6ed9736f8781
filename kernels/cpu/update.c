/* The optimizer's step over the flat block, or a part of it: one pass over parameters, gradients
 * and state. Weight decay differs by tensor, so the pass goes tensor by tensor. The formulas are
 * PyTorch's (SGD, Adam, AdamW), with u = scale*g the gradient of a step:
 *
 *   sgd     u += decay*w;  v <- m*v + u;  w -= lr*v              nesterov: w -= lr*(u + m*v)
 *   adam    u += decay*w;  m1 <- b1*m1 + (1-b1)*u;  m2 <- b2*m2 + (1-b2)*u*u
 *           w -= lr/(1-b1^t) * m1 / (sqrt(m2/(1-b2^t)) + eps)
 *   adamw   w -= lr*decay*w instead of u += decay*w
 *
 * State: [v], or [m1 | m2 | t] with the step number in the last float, so that a checkpoint and an
 * average over workers contain it. Clipping shortens u (before decay) to the given length. Ranks
 * must get the same bits whatever number of threads each has, GPUs too, so the length is a sum over
 * fixed chunks, added up in order (kernels/clip.h).
 */
#include <math.h>

#include "kernels/clip.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

struct adam {
    float lr, scale, decay, shrink, b1, b2, eps,
        root; /* shrink: 1 - lr*decay for adamw; root: sqrt(1 - b2^t) */
};

CPU_CLONES static void sgd(float *restrict w, const float *restrict g, float lr, float scale,
                           float decay, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= lr * (scale * g[i] + decay * w[i]);
    }
}

CPU_CLONES static void sgd_momentum(float *restrict w, float *restrict v, const float *restrict g,
                                    float lr, float scale, float decay, float momentum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        v[i] = momentum * v[i] + (scale * g[i] + decay * w[i]);
        w[i] -= lr * v[i];
    }
}

CPU_CLONES static void sgd_nesterov(float *restrict w, float *restrict v, const float *restrict g,
                                    float lr, float scale, float decay, float momentum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float u = scale * g[i] + decay * w[i];
        v[i] = momentum * v[i] + u;
        w[i] -= lr * (u + momentum * v[i]);
    }
}

CPU_CLONES static void adam(float *restrict w, float *restrict m1, float *restrict m2,
                            const float *restrict g, const struct adam *a, size_t n)
{
    struct adam k = *a;
    for (size_t i = 0; i < n; i++) {
        float u = k.scale * g[i] + k.decay * w[i];
        m1[i] = k.b1 * m1[i] + (1.0f - k.b1) * u;
        m2[i] = k.b2 * m2[i] + (1.0f - k.b2) * (u * u);
        w[i] = k.shrink * w[i] - k.lr * (m1[i] / (sqrtf(m2[i]) / k.root + k.eps));
    }
}

/* ---- the length of the gradient -------------------------------------------------------------- */

enum {
    CHUNK = 65536,
    /* GROUP: floats worth a thread; chunks of the length that a thread takes at once */
    GROUP = 256
};

CPU_CLONES static double sum_of_squares(const float *g, size_t n)
{
    double lane[CLIP_LANES] = {0}, sum = 0;
    size_t whole = n / CLIP_LANES * CLIP_LANES;
    for (size_t i = 0; i < whole; i += CLIP_LANES) {
        for (size_t k = 0; k < CLIP_LANES; k++) {
            lane[k] += (double)g[i + k] * (double)g[i + k];
        }
    }
    for (size_t i = whole; i < n; i++) {
        lane[i - whole] += (double)g[i] * (double)g[i];
    }
    for (size_t k = 0; k < CLIP_LANES; k++) {
        sum += lane[k];
    }
    return sum;
}

static double squares_in_chunks(const float *g, size_t n)
{
    double total = 0;
    for (size_t first = 0; first < n; first += (size_t)CLIP_CHUNK * GROUP) {
        double part[GROUP] = {0};
#pragma omp parallel for if (n - first > CHUNK)
        for (size_t k = 0; k < GROUP; k++) {
            size_t at = first + k * CLIP_CHUNK;
            part[k] =
                at < n ? sum_of_squares(g + at, n - at < CLIP_CHUNK ? n - at : CLIP_CHUNK) : 0;
        }
        for (size_t k = 0; k < GROUP; k++) {
            total += part[k];
        }
    }
    return total;
}

double dev_clip(const float *g, size_t n, double scale, double clip_norm)
{
    return clip_norm > 0 ? clip_factor(squares_in_chunks(g, n), scale, clip_norm) : 1;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static struct adam adam_coefficients(struct dev_replica *r, double lr, double scale, bool last)
{
    const struct optimizer_spec *o = &r->optimizer;
    float *steps = &r->host[DEV_OPTIM][2 * r->count[DEV_PARAMS]];
    double t = round((double)*steps) + 1; /* an average over workers rounds */
    *steps = last ? (float)t : *steps;
    return (struct adam){.lr = (float)(lr / (1 - pow(o->beta1, t))),
                         .scale = (float)scale,
                         .b1 = (float)o->beta1,
                         .b2 = (float)o->beta2,
                         .eps = (float)o->eps,
                         .root = (float)sqrt(1 - pow(o->beta2, t))};
}

static void step_tensor(struct dev_replica *r, const struct adam *base, size_t at, size_t n,
                        double lr, double scale, float decay)
{
    const struct optimizer_spec *o = &r->optimizer;
    float *w = r->host[DEV_PARAMS] + at;
    const float *g = r->host[DEV_GRADS] + at;
    if (base) {
        struct adam a = *base;
        float *m = r->host[DEV_OPTIM] + at;
        a.decay = o->type == CAT_OPTIMIZER_ADAMW ? 0 : decay;
        a.shrink = o->type == CAT_OPTIMIZER_ADAMW ? (float)(1 - lr * (double)decay) : 1;
        adam(w, m, m + r->count[DEV_PARAMS], g, &a, n);
    } else if (r->count[DEV_OPTIM] == 0) {
        sgd(w, g, (float)lr, (float)scale, decay, n);
    } else if (o->nesterov) {
        sgd_nesterov(w, r->host[DEV_OPTIM] + at, g, (float)lr, (float)scale, decay,
                     (float)o->momentum, n);
    } else {
        sgd_momentum(w, r->host[DEV_OPTIM] + at, g, (float)lr, (float)scale, decay,
                     (float)o->momentum, n);
    }
}

int cpu_update_part(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                    bool last, struct err *e)
{
    const struct optimizer_spec *o = &r->optimizer;
    bool is_adam = o->type == CAT_OPTIMIZER_ADAM || o->type == CAT_OPTIMIZER_ADAMW;
    struct adam a = is_adam ? adam_coefficients(r, lr, scale, last) : (struct adam){0};
    for (int t = 0; t < r->net->n_tensors; t++) {
        const struct tensor *tensor = &r->net->tensors[t];
        size_t begin = tensor->first > first ? tensor->first : first,
               end = tensor->first + tensor->count;
        end = end < first + n ? end : first + n;
        if (begin >= end) {
            continue;
        }
        float decay = tensor->decay ? (float)o->weight_decay : 0;
#pragma omp parallel if (end - begin > CHUNK)
        {
            size_t mine, after;
            pointwise_share(end - begin, &mine, &after);
            step_tensor(r, is_adam ? &a : NULL, begin + mine, after - mine, lr, scale, decay);
        }
    }
    return 0;
}

int cpu_update(struct dev_replica *r, double lr, double scale, struct err *e)
{
    scale *= dev_clip(r->host[DEV_GRADS], r->count[DEV_GRADS], scale, r->optimizer.clip_norm);
    return cpu_update_part(r, 0, r->count[DEV_PARAMS], lr, scale, true, e);
}

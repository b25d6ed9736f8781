/* The optimizer's step over the block of parameters, twin of cpu/update.c, which has the formulas.
 * Captured once per replica (and behind the backward pass of one that is alone, program.cu); the
 * rates are read from device memory. All arrays are in the device's order, with a flag for weight
 * decay per CUDA_ALIGN floats.
 *
 * Workers of one job may be GPUs and CPUs, and in `sync` all must get the same bits. So the file is
 * compiled without fused multiply-add, the host computes the coefficients, and the gradient's
 * length is a sum over the same chunks and lanes of the FLAT block, in the same order, as in
 * kernels/clip.h.
 */
#include <math.h>

#include "kernels/clip.h"
#include "kernels/cuda/cuda.h"

struct optimizer {
    float decay, momentum, b1, b2, eps;
    int kind;
};
enum { PLAIN, MOMENTUM, NESTEROV, ADAM, ADAMW };

/* ---- the gradient's length ------------------------------------------------------------------- */

/* squares: [chunks][CLIP_LANES]; one thread per lane of a chunk. */
KERNEL square_lanes(double *squares, const float *grads, const struct cuda_tensor *tensors,
                    int n_tensors, size_t n, size_t lanes)
{
    for (size_t i = port_index(); i < lanes; i += port_stride()) {
        size_t begin = i / CLIP_LANES * CLIP_CHUNK,
               end = begin + CLIP_CHUNK < n ? begin + CLIP_CHUNK : n;
        double sum = 0;
        for (size_t at = begin + i % CLIP_LANES; at < end; at += CLIP_LANES) {
            double g = (double)grads[cuda_place(tensors, n_tensors, at)];
            sum += g * g;
        }
        squares[i] = sum;
    }
}

/* Adds up the lanes of each chunk, in order; then one thread adds up the chunks, in order. */
KERNEL add_chunks(double *factor, double *squares, const struct cuda_rates *rates, size_t chunks)
{
    for (size_t i = threadIdx.x; i < chunks; i += PORT_THREADS) {
        double sum = 0;
        for (int k = 0; k < CLIP_LANES; k++) {
            sum += squares[i * CLIP_LANES + k];
        }
        squares[i * CLIP_LANES] = sum;
    }
    port_sync();
    if (threadIdx.x == 0) {
        double total = 0;
        for (size_t i = 0; i < chunks; i++) {
            total += squares[i * CLIP_LANES];
        }
        *factor = clip_factor(total, rates->scale, rates->clip_norm);
    }
}

/* ---- the step -------------------------------------------------------------------------------- */

DEVICE_FN void step_one(float *w, float *m1, float *m2, float g, float scale, float decay,
                        struct cuda_rates r, struct optimizer o)
{
    if (o.kind >= ADAM) {
        float u = scale * g + (o.kind == ADAMW ? 0 : decay) * *w;
        float shrink = o.kind == ADAMW && decay != 0 ? r.shrink : 1.0f;
        *m1 = o.b1 * *m1 + (1.0f - o.b1) * u;
        *m2 = o.b2 * *m2 + (1.0f - o.b2) * (u * u);
        *w = shrink * *w - r.lr * (*m1 / (sqrtf(*m2) / r.root + o.eps));
        return;
    }
    float u = scale * g + decay * *w;
    if (o.kind == PLAIN) {
        *w -= r.lr * u;
        return;
    }
    *m1 = o.momentum * *m1 + u;
    *w -= r.lr * (o.kind == NESTEROV ? u + o.momentum * *m1 : *m1);
}

/* n is a multiple of CUDA_ALIGN. weights: NULL, or the parameters as bf16. */
KERNEL step(float *params, const float *grads, float *state, struct bf16 *weights,
            const uint8_t *decays, const struct cuda_rates *rates, const double *factor,
            struct optimizer o, size_t n)
{
    struct cuda_rates r = *rates;
    float scale = (float)(r.clip_norm > 0 ? r.scale * *factor : r.scale);
    for (size_t i = port_index(); i < n / 4; i += port_stride()) {
        port_some<float, 4> w = ((port_some<float, 4> *)params)[i],
                            g = ((const port_some<float, 4> *)grads)[i], m1 = {}, m2 = {};
        float decay = decays[i * 4 / CUDA_ALIGN] ? o.decay : 0;
        if (o.kind != PLAIN) {
            m1 = ((port_some<float, 4> *)state)[i];
        }
        if (o.kind >= ADAM) {
            m2 = ((port_some<float, 4> *)(state + n))[i];
        }
        for (int k = 0; k < 4; k++) {
            step_one(&w.v[k], &m1.v[k], &m2.v[k], g.v[k], scale, decay, r, o);
        }
        ((port_some<float, 4> *)params)[i] = w;
        if (o.kind != PLAIN) {
            ((port_some<float, 4> *)state)[i] = m1;
        }
        if (o.kind >= ADAM) {
            ((port_some<float, 4> *)(state + n))[i] = m2;
        }
        if (weights) {
            ((port_some<struct bf16, 4> *)weights)[i] = {port_bf16(w.v[0]), port_bf16(w.v[1]),
                                                         port_bf16(w.v[2]), port_bf16(w.v[3])};
        }
    }
    if (o.kind >= ADAM && port_index() == 0) {
        state[2 * n] = r.steps;
    }
}

/* ---- host ------------------------------------------------------------------------------------ */

static struct optimizer optimizer_of(const struct cuda_replica *r)
{
    const struct optimizer_spec *o = &r->head->optimizer;
    int kind = o->type == CAT_OPTIMIZER_ADAMW   ? ADAMW
               : o->type == CAT_OPTIMIZER_ADAM  ? ADAM
               : r->head->count[DEV_OPTIM] == 0 ? PLAIN
               : o->nesterov                    ? NESTEROV
                                                : MOMENTUM;
    return {(float)o->weight_decay, (float)o->momentum, (float)o->beta1,
            (float)o->beta2,        (float)o->eps,      kind};
}

int cuda_update_enqueue(struct cuda_replica *r, cudaStream_t stream, struct err *e)
{
    size_t n = r->params.at, flat = r->params.flat, chunks = (flat + CLIP_CHUNK - 1) / CLIP_CHUNK;
    TRY(cuda_check(
        cudaMemcpyAsync(r->rates, r->rates_host, sizeof(*r->rates), cudaMemcpyHostToDevice, stream),
        "copy to the GPU", e));
    if (n == 0) {
        return 0;
    }
    if (r->head->optimizer.clip_norm > 0) {
        size_t lanes = chunks * CLIP_LANES;
        TRY(cuda_check(LAUNCH(square_lanes, (lanes + PORT_THREADS - 1) / PORT_THREADS,
                              flat * sizeof(float) + lanes * sizeof(double), stream, r->squares,
                              r->block[DEV_GRADS], r->params.device, r->params.n, flat, lanes),
                       "measure a gradient", e));
        TRY(cuda_check(LAUNCH(add_chunks, 1, lanes * sizeof(double), stream, r->factor, r->squares,
                              r->rates, chunks),
                       "measure a gradient", e));
    }
    struct optimizer o = optimizer_of(r);
    size_t moments = o.kind == PLAIN ? 0 : o.kind >= ADAM ? 2 : 1;
    size_t bytes =
        n * ((3 + 2 * moments) * sizeof(float) + (r->weights ? sizeof(*r->weights) : 0)) +
        n / CUDA_ALIGN;
    return cuda_check(LAUNCH(step, cuda_blocks(r->dev, n / 4), bytes, stream, r->block[DEV_PARAMS],
                             r->block[DEV_GRADS], r->block[DEV_OPTIM], r->weights, r->decays,
                             r->rates, r->factor, o, n),
                      "make a step", e);
}

/* Computes the rates in double, as the CPU does. */
static void write_rates(struct cuda_replica *r, double lr, double scale)
{
    const struct optimizer_spec *o = &r->head->optimizer;
    struct cuda_rates *rates = r->rates_host;
    *rates = {};
    rates->scale = scale;
    rates->clip_norm = o->clip_norm;
    rates->lr = (float)lr;
    if (o->type == CAT_OPTIMIZER_ADAM || o->type == CAT_OPTIMIZER_ADAMW) {
        double t = ++r->steps;
        rates->lr = (float)(lr / (1 - pow(o->beta1, t)));
        rates->root = (float)sqrt(1 - pow(o->beta2, t));
        rates->shrink = (float)(1 - lr * (double)(float)o->weight_decay);
        rates->steps = (float)t;
    }
}

int cuda_update_begin(struct cuda_replica *r, double lr, double scale, struct err *e)
{
    TRY(cuda_check(cudaEventSynchronize(r->updated), "wait for the update before", e));
    write_rates(r, lr, scale);
    return 0;
}

int cuda_update_end(struct cuda_replica *r, struct err *e)
{
    return cuda_check(cudaEventRecord(r->updated, r->dev->main), "mark the update", e);
}

int cuda_update(struct dev_replica *head, double lr, double scale, struct err *e)
{
    struct cuda_replica *r = cuda_replica(head);
    TRY(cuda_enter(r->dev, e));
    TRY(cuda_update_begin(r, lr, scale, e));
    if (cuda_metering()) { /* so that each kernel is metered */
        TRY(cuda_update_enqueue(r, r->dev->main, e));
    } else {
        TRY(cuda_check(cudaGraphLaunch(r->update, r->dev->main), "start the update", e));
    }
    return cuda_update_end(r, e);
}

/* Layers with several inputs: add and concat, twin of cpu/join.c. Both only move numbers. Concat
 * joins channels, which are innermost in memory, so its inputs interleave pixel by pixel: x_k
 * [batch·h·w][c_k], y [batch·h·w][sum of c_k].
 */
#include "kernels/cuda/elements.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/steps.h"

/* ---- add ------------------------------------------------------------------------------------- */

static int add_forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    int rc = 0;
    for (int k = 1; k < s->n_in && rc == 0; k++) {
        const void *a = k == 1 ? s->in[0]->data : s->out->data;
        struct f_sum sum = {s->relu && k == s->n_in - 1};
        CUDA_KIND(p, T,
                  rc = elements_each(p->dev, p->dev->build, sum, (T *)s->out->data, (const T *)a,
                                     (const T *)s->in[k]->data, n, "add values", e));
    }
    return rc;
}

/* Masks the gradient in place, if a relu follows (y), and copies it. */
template <typename T> KERNEL mask_and_copy(T *to, T *grad, const T *y, bool relu, size_t n)
{
    constexpr int N = port_pack<T>::N;
    size_t packs = n / N;
    for (size_t i = port_index(); i < packs; i += port_stride()) {
        port_some<T, N> g = ((const port_some<T, N> *)grad)[i];
        if (relu) {
            g = port_masked(g, ((const port_some<T, N> *)y)[i]);
            ((port_some<T, N> *)grad)[i] = g;
        }
        ((port_some<T, N> *)to)[i] = g;
    }
    for (size_t i = packs * N + port_index(); i < n; i += port_stride()) {
        if (relu) {
            grad[i] = port_float(y[i]) > 0 ? grad[i] : port_from<T>(0);
        }
        to[i] = grad[i];
    }
}

static int add_backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    void *grad = s->out->grad;
    bool relu = s->relu;
    for (int k = 0; k < s->n_in; k++) {
        void *to = s->in_grad[k] ? *s->in_grad[k] : grad;
        if (to == grad) {
            continue;
        }
        cudaError_t code;
        CUDA_KIND(p, T,
                  code = LAUNCH(mask_and_copy<T>, cuda_blocks(p->dev, n / port_pack<T>::N + 1),
                                (relu ? 4 : 2) * n * sizeof(T), p->dev->build, (T *)to, (T *)grad,
                                (const T *)s->out->data, relu, n));
        TRY(cuda_check(code, "pass a gradient on", e));
        relu = false; /* done */
    }
    return relu ? pointwise_relu_mask(p, grad, s->out->data, n, e) : 0;
}

const struct cuda_op cuda_add = {
    .name = "add",
    .takes_relu = true,
    .passes = ~0u,
    .forward = add_forward,
    .backward = add_backward,
};

/* ---- concat ---------------------------------------------------------------------------------- */

/* part: [rows][c], whole: [rows][all], n = rows*c, of numbers or of packs of them */
template <typename T>
KERNEL spread_part(T *whole, const T *part, size_t c, size_t all, size_t at, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        whole[i / c * all + at + i % c] = part[i];
    }
}

template <typename T>
KERNEL gather_part(T *part, const T *whole, size_t c, size_t all, size_t at, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        part[i] = whole[i / c * all + at + i % c];
    }
}

static int concat_forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t all = steps_joined(&s->out->shape, &s->out->shape),
           rows = (size_t)p->head.batch * s->out->count / all, at = 0;
    for (int k = 0; k < s->n_in; k++) {
        size_t c = steps_joined(&s->out->shape, &s->in[k]->shape), n = rows * c;
        cudaError_t code;
        CUDA_PACKS(p, all | at | c, T, N,
                   code = LAUNCH((spread_part<port_some<T, N>>), cuda_blocks(p->dev, n / N),
                                 2 * n * sizeof(T), p->dev->build, (port_some<T, N> *)s->out->data,
                                 (const port_some<T, N> *)s->in[k]->data, c / N, all / N, at / N,
                                 n / N));
        TRY(cuda_check(code, "join channels", e));
        at += c;
    }
    return 0;
}

static int concat_backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t all = steps_joined(&s->out->shape, &s->out->shape),
           rows = (size_t)p->head.batch * s->out->count / all, at = 0;
    for (int k = 0; k < s->n_in; k++) {
        size_t c = steps_joined(&s->out->shape, &s->in[k]->shape), n = rows * c;
        cudaError_t code = cudaSuccess;
        if (s->in_grad[k]) {
            CUDA_PACKS(p, all | at | c, T, N,
                       code = LAUNCH(
                           (gather_part<port_some<T, N>>), cuda_blocks(p->dev, n / N),
                           2 * n * sizeof(T), p->dev->build, (port_some<T, N> *)*s->in_grad[k],
                           (const port_some<T, N> *)s->out->grad, c / N, all / N, at / N, n / N));
        }
        TRY(cuda_check(code, "part channels", e));
        at += c;
    }
    return 0;
}

const struct cuda_op cuda_concat = {
    .name = "concat",
    .forward = concat_forward,
    .backward = concat_backward,
};

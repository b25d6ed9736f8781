/* Fully connected layer, twin of cpu/dense.c: cuBLAS on the weights in the device's order, O,I with
 * the input counted as it is stored, so an image is read as a vector without a copy.
 *
 *   x [batch][in]   w [out][in]   y [batch][out]
 *   y = x·wᵀ + bias     dw = dyᵀ·x     dx = dy·w
 *
 * cuBLAS counts columns first. So it gets every matrix as its transpose, and the product in the
 * other order: yᵀ [out][batch] = w · xᵀ.
 */
#include "kernels/cuda/pointwise.h"

enum { WORKSPACE = 32 << 20 }; /* cuBLAS' own size on Hopper */

static cublasComputeType_t compute_of(enum cuda_precision precision)
{
    return precision == CUDA_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static int prepare(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    p->workspace_bytes = p->workspace_bytes > WORKSPACE ? p->workspace_bytes : (size_t)WORKSPACE;
    cuda_branch_workspace(p, WORKSPACE);
    pointwise_reserve_bias(p, s);
    return 0;
}

struct factor {
    cublasOperation_t op;
    const void *at;
    size_t lead; /* values from one column to the next, in cuBLAS' order */
};

struct product {
    size_t rows, columns, inner; /* `inner` terms are added up */
    struct factor a, b;
    void *to;
    bool fp32; /* of the result, whatever the factors are */
};

/* to [columns][rows] = op(a) · op(b), as cuBLAS counts. */
static int multiply(struct cuda_program *p, const struct product &of, cudaStream_t stream,
                    struct err *e)
{
    const float one = 1, zero = 0;
    cudaDataType kind = p->precision == CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cuda_meter_begin(__FILE__, "product", 0,
                     2.0 * (double)of.rows * (double)of.columns * (double)of.inner, stream);
    cublasStatus_t code = cublasGemmEx(
        p->dev->blas, of.a.op, of.b.op, (int)of.rows, (int)of.columns, (int)of.inner, &one, of.a.at,
        kind, (int)of.a.lead, of.b.at, kind, (int)of.b.lead, &zero, of.to,
        of.fp32 ? CUDA_R_32F : kind, (int)of.rows, compute_of(p->precision), CUBLAS_GEMM_DEFAULT);
    cuda_meter_end(stream, cudaSuccess);
    return cuda_check_blas(code, "multiply two matrices", e);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t batch = (size_t)p->head.batch, in = s->in[0]->count, out = s->out->count;
    const struct product y = {.rows = out,
                              .columns = batch,
                              .inner = in,
                              .a = {CUBLAS_OP_T, cuda_weights(p, s), in},
                              .b = {CUBLAS_OP_N, s->in[0]->data, in},
                              .to = s->out->data};
    TRY(multiply(p, y, p->dev->build, e));
    return pointwise_bias(p, s->out->data, s->layer->bias ? cuda_param(p, s, 1) : NULL, s->relu,
                          batch, out, e);
}

static int weights_gradient(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream,
                            struct err *e)
{
    size_t batch = (size_t)p->head.batch, in = s->in[0]->count, out = s->out->count;
    const struct product dw = {.rows = in,
                               .columns = out,
                               .inner = batch,
                               .a = {CUBLAS_OP_N, s->in[0]->data, in},
                               .b = {CUBLAS_OP_T, s->out->grad, out},
                               .to = cuda_param_grad(p, s, 0),
                               .fp32 = true};
    if (!pointwise_masks(s)) {
        TRY(pointwise_bias_backward(p, s, stream, e));
    }
    return multiply(p, dw, stream, e);
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t batch = (size_t)p->head.batch, in = s->in[0]->count, out = s->out->count;
    if (pointwise_masks(s)) {
        TRY(pointwise_bias_backward(p, s, p->dev->build, e));
    }
    TRY(cuda_branch(p, s, weights_gradient, e));
    if (!s->in_grad[0]) {
        return 0;
    }
    const struct product dx = {.rows = in,
                               .columns = batch,
                               .inner = out,
                               .a = {CUBLAS_OP_N, cuda_weights(p, s), in},
                               .b = {CUBLAS_OP_N, s->out->grad, out},
                               .to = *s->in_grad[0]};
    return multiply(p, dx, p->dev->build, e);
}

const struct cuda_op cuda_dense = {
    .name = "inner product",
    .takes_relu = true,
    .branch = true,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};

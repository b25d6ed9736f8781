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

enum { WORKSPACE = 32 << 20 }; /* what cuBLAS would take for itself on Hopper */

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

/* c [columns][rows] = op(a) · op(b), as cuBLAS counts: c has `rows` rows, and `inner` terms are
 * added up. */
static int product(struct cuda_program *p, cublasOperation_t op_a, cublasOperation_t op_b,
                   size_t rows, size_t columns, size_t inner, const void *a, size_t lda,
                   const void *b, size_t ldb, void *c, bool float_result, cudaStream_t stream,
                   struct err *e)
{
    const float one = 1, zero = 0;
    cudaDataType kind = p->precision == CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cuda_meter_begin(__FILE__, "product", 0, 2.0 * (double)rows * (double)columns * (double)inner,
                     stream);
    cublasStatus_t code =
        cublasGemmEx(p->dev->blas, op_a, op_b, (int)rows, (int)columns, (int)inner, &one, a, kind,
                     (int)lda, b, kind, (int)ldb, &zero, c, float_result ? CUDA_R_32F : kind,
                     (int)rows, compute_of(p->precision), CUBLAS_GEMM_DEFAULT);
    cuda_meter_end(stream, cudaSuccess);
    return cuda_check_blas(code, "multiply two matrices", e);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t batch = (size_t)p->head.batch, in = s->in[0]->count, out = s->out->count;
    TRY(product(p, CUBLAS_OP_T, CUBLAS_OP_N, out, batch, in, cuda_weights(p, s), in, s->in[0]->data,
                in, s->out->data, false, p->dev->build, e));
    return pointwise_bias(p, s->out->data, s->layer->bias ? cuda_param(p, s, 1) : NULL, s->relu,
                          batch, out, e);
}

static int weights_gradient(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream,
                            struct err *e)
{
    size_t batch = (size_t)p->head.batch, in = s->in[0]->count, out = s->out->count;
    if (!pointwise_masks(s)) {
        TRY(pointwise_bias_backward(p, s, stream, e));
    }
    return product(p, CUBLAS_OP_N, CUBLAS_OP_T, in, out, batch, s->in[0]->data, in, s->out->grad,
                   out, cuda_param_grad(p, s, 0), true, stream, e);
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
    return product(p, CUBLAS_OP_N, CUBLAS_OP_N, in, batch, out, cuda_weights(p, s), in,
                   s->out->grad, out, *s->in_grad[0], false, p->dev->build, e);
}

const struct cuda_op cuda_dense = {
    .name = "inner product",
    .takes_relu = true,
    .branch = true,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};

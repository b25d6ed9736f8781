/* Two-dimensional convolution on NHWC activations, twin of cpu/conv.c: cuDNN with weights O,H,W,I as they stand on the device.
 *
 *   x [batch][h][w][c]   w [units][kh][kw][c]   y [batch][oh][ow][units]   and their gradients in the same shapes
 *
 * Which of cuDNN's algorithms is used for each pass is measured once per shape, at the next power of two of the minibatch, and kept with
 * the device (and in the node's profile, tuning.cu): so a changed minibatch, and the next job, find their algorithms known. Algorithms
 * that give the same bits each time are taken wherever there are any, and for fp32 only those without TF32.
 *
 * What a newcomer would get wrong: cuDNN's arithmetic is a property of the convolution descriptor, and what an algorithm was measured with
 * must be set again when it runs; so each pass has a descriptor of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/pointwise.h"

enum pass { FORWARD, DATA, FILTER, PASSES = CUDA_PASSES };
enum { MOST_ALGORITHMS = 16 };
static const size_t most_workspace = (size_t)512 << 20;

struct conv {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t pass[PASSES];
    int algorithm[PASSES];
    size_t workspace[PASSES]; /* bytes */
};

/* ---- descriptors -------------------------------------------------------------------------------------------------------- */

static cudnnDataType_t kind_of(enum cuda_precision precision)
{
    return precision == CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static cudnnMathType_t math_of(enum cuda_precision precision)
{
    return precision == CUDA_FP32 ? CUDNN_FMA_MATH : precision == CUDA_TF32 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

static void describe_release(struct conv *c)
{
    if (c->x) {
        cudnnDestroyTensorDescriptor(c->x);
    }
    if (c->y) {
        cudnnDestroyTensorDescriptor(c->y);
    }
    if (c->w) {
        cudnnDestroyFilterDescriptor(c->w);
    }
    for (int i = 0; i < PASSES; i++) {
        if (c->pass[i]) {
            cudnnDestroyConvolutionDescriptor(c->pass[i]);
        }
    }
    memset(c, 0, sizeof(*c));
}

#define DNN(call) TRY(cuda_check_dnn(call, "describe a convolution", e))

static int describe_batch(struct conv *c, const struct cuda_step *s, enum cuda_precision precision, int batch, struct err *e)
{
    const struct shape *in = &s->in[0]->shape, *out = &s->out->shape;
    cudnnDataType_t kind = kind_of(precision);
    DNN(cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NHWC, kind, batch, in->dim[2], in->dim[0], in->dim[1]));
    DNN(cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NHWC, kind, batch, out->dim[2], out->dim[0], out->dim[1]));
    return 0;
}

static int describe(struct conv *c, const struct cuda_step *s, enum cuda_precision precision, int batch, struct err *e)
{
    const struct layer *l = s->layer;
    DNN(cudnnCreateTensorDescriptor(&c->x));
    DNN(cudnnCreateTensorDescriptor(&c->y));
    DNN(cudnnCreateFilterDescriptor(&c->w));
    DNN(cudnnSetFilter4dDescriptor(c->w, kind_of(precision), CUDNN_TENSOR_NHWC, l->units, s->in[0]->shape.dim[2], l->kernel[0],
                                   l->kernel[1]));
    for (int i = 0; i < PASSES; i++) {
        DNN(cudnnCreateConvolutionDescriptor(&c->pass[i]));
        DNN(cudnnSetConvolution2dDescriptor(c->pass[i], l->padding[0], l->padding[1], l->stride[0], l->stride[1], 1, 1,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
        DNN(cudnnSetConvolutionMathType(c->pass[i], math_of(precision)));
    }
    return describe_batch(c, s, precision, batch, e);
}

/* ---- the choice of algorithms ----------------------------------------------------------------------------------------------- */

bool cuda_math_allowed(enum cuda_precision precision, int math)
{
    if (precision == CUDA_FP32) {
        return math == CUDNN_FMA_MATH;
    }
    /* converting would round floats to half precision */
    return math == CUDNN_FMA_MATH || math == CUDNN_DEFAULT_MATH || math == CUDNN_TENSOR_OP_MATH;
}

/* The first (fastest) that is there: one that is repeatable and of the right arithmetic; else one that is repeatable, with the arithmetic
 * that was asked for, if it can do it (workspaces, below): cuDNN may tell only of other arithmetic; else one of the right arithmetic that is
 * not. -1: none. `Perf` is one of cuDNN's three structs. */
template <typename Perf> static int pick(const Perf *list, int n, enum cuda_precision precision, cudnnMathType_t *math)
{
    enum { BEST, ANY_MATH, ANY_ORDER, WAYS };
    for (int way = BEST; way < WAYS; way++) {
        for (int i = 0; i < n; i++) {
            if (list[i].status == CUDNN_STATUS_SUCCESS && list[i].memory <= most_workspace &&
                (way == ANY_ORDER || list[i].determinism == CUDNN_DETERMINISTIC) &&
                (way == ANY_MATH || cuda_math_allowed(precision, list[i].mathType))) {
                *math = way == ANY_MATH ? math_of(precision) : list[i].mathType;
                return (int)list[i].algo;
            }
        }
    }
    return -1;
}

/* Measured if there is memory for it, else as cuDNN's rules of thumb say. */
static int choose_pass(struct cuda_device *d, const struct conv *c, int pass, enum cuda_precision precision, cudnnMathType_t *math)
{
    int n = 0, chosen = -1;
    if (pass == FORWARD) {
        cudnnConvolutionFwdAlgoPerf_t list[MOST_ALGORITHMS];
        if (cudnnFindConvolutionForwardAlgorithm(d->dnn, c->x, c->w, c->pass[pass], c->y, MOST_ALGORITHMS, &n, list) ==
            CUDNN_STATUS_SUCCESS) {
            chosen = pick(list, n, precision, math);
        }
        if (chosen < 0 && cudnnGetConvolutionForwardAlgorithm_v7(d->dnn, c->x, c->w, c->pass[pass], c->y, MOST_ALGORITHMS, &n, list) ==
                              CUDNN_STATUS_SUCCESS) {
            chosen = pick(list, n, precision, math);
        }
    } else if (pass == DATA) {
        cudnnConvolutionBwdDataAlgoPerf_t list[MOST_ALGORITHMS];
        if (cudnnFindConvolutionBackwardDataAlgorithm(d->dnn, c->w, c->y, c->pass[pass], c->x, MOST_ALGORITHMS, &n, list) ==
            CUDNN_STATUS_SUCCESS) {
            chosen = pick(list, n, precision, math);
        }
        if (chosen < 0 && cudnnGetConvolutionBackwardDataAlgorithm_v7(d->dnn, c->w, c->y, c->pass[pass], c->x, MOST_ALGORITHMS, &n, list) ==
                              CUDNN_STATUS_SUCCESS) {
            chosen = pick(list, n, precision, math);
        }
    } else {
        cudnnConvolutionBwdFilterAlgoPerf_t list[MOST_ALGORITHMS];
        if (cudnnFindConvolutionBackwardFilterAlgorithm(d->dnn, c->x, c->y, c->pass[pass], c->w, MOST_ALGORITHMS, &n, list) ==
            CUDNN_STATUS_SUCCESS) {
            chosen = pick(list, n, precision, math);
        }
        if (chosen < 0 && cudnnGetConvolutionBackwardFilterAlgorithm_v7(d->dnn, c->x, c->y, c->pass[pass], c->w, MOST_ALGORITHMS, &n,
                                                                        list) == CUDNN_STATUS_SUCCESS) {
            chosen = pick(list, n, precision, math);
        }
    }
    cudaGetLastError(); /* memory that was not there for measuring is no error of ours */
    return chosen;
}

/* Nobody asks for the gradient of a first layer's input, so cuDNN need not have an algorithm for it. */
static bool needs(const struct cuda_step *s, int pass)
{
    return pass != DATA || s->in_grad[0];
}

static bool lacks(const struct cuda_step *s, const struct cuda_choice *choice)
{
    for (int i = 0; i < PASSES; i++) {
        if (needs(s, i) && choice->algorithm[i] < 0) {
            return true;
        }
    }
    return false;
}

/* Of the passes that the step needs and of which none is chosen yet. */
static int choose(struct cuda_device *d, const struct cuda_step *s, const struct conv *c, enum cuda_precision precision,
                  struct cuda_choice *choice, struct err *e)
{
    static const char *const names[] = {"the convolution", "the gradient of its input", "the gradient of its weights"};
    for (int i = 0; i < PASSES; i++) {
        if (!needs(s, i) || choice->algorithm[i] >= 0) {
            continue;
        }
        cudnnMathType_t math = math_of(precision);
        choice->algorithm[i] = choose_pass(d, c, i, precision, &math);
        choice->math[i] = (int)math;
        if (choice->algorithm[i] < 0) {
            return err_set(e, ERR_UNSUPPORTED, "cuDNN has no algorithm for %s", names[i]);
        }
    }
    return 0;
}

static int power_of_two(int n)
{
    int p = 1;
    while (p < n && p < 1 << 29) {
        p *= 2;
    }
    return p;
}

static const struct cuda_choice nothing_chosen = {NULL, {}, {-1, -1, -1}, {}};

/* The choice for this shape, measured where it is new. The caller holds `building`. */
static int choice_of(struct cuda_program *p, const struct cuda_step *s, struct conv *c, struct cuda_choice *out, struct err *e)
{
    const struct layer *l = s->layer;
    const struct shape *in = &s->in[0]->shape;
    int batch = power_of_two(p->head.batch);
    const int key[CUDA_CHOICE_KEY] = {p->precision, batch,        in->dim[0],   in->dim[1],   in->dim[2],    l->units,
                                      l->kernel[0], l->kernel[1], l->stride[0], l->stride[1], l->padding[0], l->padding[1]};
    const struct cuda_choice *known = cuda_choice_find(p->dev, key);
    *out = known ? *known : nothing_chosen;
    if (!lacks(s, out)) {
        return 0;
    }
    memcpy(out->key, key, sizeof(key));
    TRY(describe_batch(c, s, p->precision, batch, e));
    TRY(choose(p->dev, s, c, p->precision, out, e));
    TRY(describe_batch(c, s, p->precision, p->head.batch, e));
    return cuda_choice_keep(p->dev, out, e);
}

/* Bytes that the chosen algorithms want for this minibatch; false if one cannot do it. */
static bool workspaces(struct cuda_device *d, const struct cuda_step *s, struct conv *c)
{
    return cudnnGetConvolutionForwardWorkspaceSize(d->dnn, c->x, c->w, c->pass[FORWARD], c->y,
                                                   (cudnnConvolutionFwdAlgo_t)c->algorithm[FORWARD],
                                                   &c->workspace[FORWARD]) == CUDNN_STATUS_SUCCESS &&
           (!needs(s, DATA) || cudnnGetConvolutionBackwardDataWorkspaceSize(d->dnn, c->w, c->y, c->pass[DATA], c->x,
                                                                            (cudnnConvolutionBwdDataAlgo_t)c->algorithm[DATA],
                                                                            &c->workspace[DATA]) == CUDNN_STATUS_SUCCESS) &&
           cudnnGetConvolutionBackwardFilterWorkspaceSize(d->dnn, c->x, c->y, c->pass[FILTER], c->w,
                                                          (cudnnConvolutionBwdFilterAlgo_t)c->algorithm[FILTER],
                                                          &c->workspace[FILTER]) == CUDNN_STATUS_SUCCESS;
}

static int take(struct conv *c, const struct cuda_choice *choice, struct err *e)
{
    for (int i = 0; i < PASSES; i++) {
        c->algorithm[i] = choice->algorithm[i];
        DNN(cudnnSetConvolutionMathType(c->pass[i], (cudnnMathType_t)choice->math[i]));
    }
    return 0;
}

/* ---- the operator --------------------------------------------------------------------------------------------------------------- */

static size_t rows_of(const struct cuda_program *p, const struct cuda_step *s)
{
    return (size_t)p->head.batch * (size_t)(s->out->shape.dim[0] * s->out->shape.dim[1]);
}

static int prepare(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct conv *c = (struct conv *)calloc(1, sizeof(*c));
    if (!c) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = c;
    TRY(describe(c, s, p->precision, p->head.batch, e));
    struct cuda_choice choice;
    TRY(choice_of(p, s, c, &choice, e));
    TRY(take(c, &choice, e));
    if (!workspaces(p->dev, s, c)) { /* what is good at the power of two is not offered here */
        choice = nothing_chosen;
        TRY(choose(p->dev, s, c, p->precision, &choice, e));
        TRY(take(c, &choice, e));
        if (!workspaces(p->dev, s, c)) {
            return err_set(e, ERR_DEVICE, "cuDNN chose an algorithm that it cannot run");
        }
    }
    size_t most = c->workspace[FORWARD] > c->workspace[DATA] ? c->workspace[FORWARD] : c->workspace[DATA];
    p->workspace_bytes = most > p->workspace_bytes ? most : p->workspace_bytes;
    cuda_beside_want(p, c->workspace[FILTER]);
    size_t weights = cuda_tensor_of(p, s, 0)->count * sizeof(struct bf16);
    p->scratch_bytes = p->weights && weights > p->scratch_bytes ? weights : p->scratch_bytes;
    if (s->layer->bias) {
        pointwise_want_bias(p, rows_of(p, s), (size_t)s->layer->units);
    }
    return 0;
}

/* Each pass multiplies as often. */
static void meter(const struct cuda_program *p, const struct cuda_step *s, const char *pass, cudaStream_t stream)
{
    cuda_meter_begin(__FILE__, pass, 0, layer_flops(s->layer) * p->head.batch, stream);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    struct conv *c = (struct conv *)s->state;
    const float one = 1, zero = 0;
    meter(p, s, "forward", p->dev->build);
    TRY(cuda_check_dnn(cudnnConvolutionForward(p->dev->dnn, &one, c->x, s->in[0]->data, c->w, cuda_weights(p, s), c->pass[FORWARD],
                                               (cudnnConvolutionFwdAlgo_t)c->algorithm[FORWARD], p->workspace, c->workspace[FORWARD], &zero,
                                               c->y, s->out->data),
                       "run a convolution", e));
    cuda_meter_end(p->dev->build, cudaSuccess);
    return pointwise_bias(p, s->out->data, s->layer->bias ? cuda_param(p, s, 1) : NULL, s->relu, rows_of(p, s), (size_t)s->layer->units, e);
}

static int filter_gradient(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream, struct err *e)
{
    struct conv *c = (struct conv *)s->state;
    const float one = 1, zero = 0;
    void *dw = p->weights ? p->scratch : cuda_param_grad(p, s, 0);
    meter(p, s, "filter", stream);
    TRY(cuda_check_dnn(cudnnConvolutionBackwardFilter(p->dev->dnn, &one, c->x, s->in[0]->data, c->y, s->out->grad, c->pass[FILTER],
                                                      (cudnnConvolutionBwdFilterAlgo_t)c->algorithm[FILTER], p->beside.memory,
                                                      c->workspace[FILTER], &zero, c->w, dw),
                       "run the gradient of a convolution's weights", e));
    cuda_meter_end(stream, cudaSuccess);
    if (!p->weights) {
        return 0;
    }
    return pointwise_widen(p, cuda_param_grad(p, s, 0), (const struct bf16 *)dw, cuda_tensor_of(p, s, 0)->count, stream, e);
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct conv *c = (struct conv *)s->state;
    const float one = 1, zero = 0;
    TRY(pointwise_bias_backward(p, s->out->grad, s->out->data, s->layer->bias ? cuda_param_grad(p, s, 1) : NULL, s->relu, rows_of(p, s),
                                (size_t)s->layer->units, e));
    TRY(cuda_beside(p, s, filter_gradient, e));
    if (!s->in_grad[0]) {
        return 0;
    }
    meter(p, s, "data", p->dev->build);
    int rc = cuda_check_dnn(cudnnConvolutionBackwardData(p->dev->dnn, &one, c->w, cuda_weights(p, s), c->y, s->out->grad, c->pass[DATA],
                                                         (cudnnConvolutionBwdDataAlgo_t)c->algorithm[DATA], p->workspace,
                                                         c->workspace[DATA], &zero, c->x, *s->in_grad[0]),
                            "run the gradient of a convolution's input", e);
    cuda_meter_end(p->dev->build, cudaSuccess);
    return rc;
}

static void release(struct cuda_step *s)
{
    if (s->state) {
        describe_release((struct conv *)s->state);
        free(s->state);
        s->state = NULL;
    }
}

const struct cuda_op cuda_conv = {
    .name = "convolution",
    .takes_relu = true,
    .beside = true,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};

/* cuDNN's convolutions on plain loops (see standin.h), with what the real one checks: descriptors that are live and set, shapes that belong
 * together, tensors inside memory of the GPU and aligned, a workspace that is large enough, the stream of the handle.
 *
 * The list of algorithms has traps before the right one: one that is not supported, one that is not repeatable, one that rounds to TF32.
 * Whoever takes one of them fails a test: the first returns an error, the second adds noise, the third is really computed with 10 bits.
 */
#include <stdio.h>

#include <vector>

#include "tests/cuda/standin/standin.h"

struct standin_dnn {
    cudaStream_t stream;
};
struct standin_tensor {
    bool set;
    cudnnDataType_t kind;
    int n, c, h, w;
};
struct standin_filter {
    bool set;
    cudnnDataType_t kind;
    int k, c, h, w;
};
struct standin_conv {
    bool set;
    int padding[2], stride[2];
    cudnnMathType_t math;
};

extern "C" const char *cudnnGetErrorString(cudnnStatus_t code)
{
    return code == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : code == CUDNN_STATUS_BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
           : code == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_EXECUTION_FAILED";
}

/* As long, and with as many lines, as the real one's may be. */
extern "C" void cudnnGetLastErrorString(char *message, size_t room)
{
    snprintf(
        message, room, "%s",
        "a reason\n\tof several lines that cuDNN has written down, longer than there is room for in a message, so that it is cut somewhere: "
        "and so on, and so on, and so on, and so on, and so on.\n");
}

static int shy;
void standin_set_shy(int on)
{
    LOCKED;
    shy = on;
}

extern "C" size_t cudnnGetVersion(void)
{
    return 0;
}

#define ENTER(name)                           \
    LOCKED;                                   \
    if (standin_call(name)) {                 \
        return CUDNN_STATUS_EXECUTION_FAILED; \
    }

#define OBJECT(Name, handle, struct_name, title)               \
    extern "C" cudnnStatus_t cudnnCreate##Name(handle *out)    \
    {                                                          \
        ENTER("cudnnCreate" #Name);                            \
        *out = new struct_name{};                              \
        standin_born(*out, title);                             \
        return CUDNN_STATUS_SUCCESS;                           \
    }                                                          \
    extern "C" cudnnStatus_t cudnnDestroy##Name(handle object) \
    {                                                          \
        standin_gone(object, title);                           \
        delete object;                                         \
        return CUDNN_STATUS_SUCCESS;                           \
    }
OBJECT(, cudnnHandle_t, standin_dnn, "cuDNN handle")
OBJECT(TensorDescriptor, cudnnTensorDescriptor_t, standin_tensor, "tensor descriptor")
OBJECT(FilterDescriptor, cudnnFilterDescriptor_t, standin_filter, "filter descriptor")
OBJECT(ConvolutionDescriptor, cudnnConvolutionDescriptor_t, standin_conv, "convolution descriptor")

extern "C" cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    ENTER("cudnnSetStream");
    standin_need(handle, "cuDNN handle");
    standin_need(stream, "stream");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t kind, int n,
                                                    int c, int h, int w)
{
    ENTER("cudnnSetTensor4dDescriptor");
    standin_need(d, "tensor descriptor");
    if (format != CUDNN_TENSOR_NHWC || n < 1 || c < 1 || h < 1 || w < 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    *d = {true, kind, n, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t kind, cudnnTensorFormat_t format, int k,
                                                    int c, int h, int w)
{
    ENTER("cudnnSetFilter4dDescriptor");
    standin_need(d, "filter descriptor");
    if (format != CUDNN_TENSOR_NHWC || k < 1 || c < 1 || h < 1 || w < 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    *d = {true, kind, k, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u, int v, int dilation_h,
                                                         int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute)
{
    ENTER("cudnnSetConvolution2dDescriptor");
    standin_need(d, "convolution descriptor");
    if (pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION ||
        compute != CUDNN_DATA_FLOAT) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    *d = {true, {pad_h, pad_w}, {u, v}, CUDNN_DEFAULT_MATH};
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math)
{
    ENTER("cudnnSetConvolutionMathType");
    standin_need(d, "convolution descriptor");
    d->math = math;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------- */

/* What the descriptors say together; false: they do not belong together. */
static bool agree(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
                  struct plain_conv *d)
{
    standin_need(x, "tensor descriptor");
    standin_need(y, "tensor descriptor");
    standin_need(w, "filter descriptor");
    standin_need(conv, "convolution descriptor");
    if (!x->set || !y->set || !w->set || !conv->set) {
        standin_die("a descriptor is used that was never set");
    }
    *d = {x->n, x->h, x->w, x->c, w->k, w->h, w->w, y->h, y->w, {conv->stride[0], conv->stride[1]}, {conv->padding[0], conv->padding[1]}};
    return x->kind == y->kind && x->kind == w->kind && x->n == y->n && x->c == w->c && y->c == w->k &&
           y->h == (x->h + 2 * conv->padding[0] - w->h) / conv->stride[0] + 1 &&
           y->w == (x->w + 2 * conv->padding[1] - w->w) / conv->stride[1] + 1;
}

/* Bytes of workspace: algorithm 1 wants some that depend on the minibatch, algorithm 0 none. */
static size_t workspace_of(const struct plain_conv &d, int algorithm)
{
    return algorithm == 1 ? 1000 + (size_t)d.n * 64 : 0;
}

template <typename Perf, typename Algorithm>
static cudnnStatus_t choose(cudnnHandle_t handle, const struct plain_conv &d, cudnnConvolutionDescriptor_t conv, int most, int *n,
                            Perf *list, bool measured)
{
    standin_need(handle, "cuDNN handle");
    if (measured) {
        if (standin_forbidden()) {
            standin_die("algorithms are measured while a stream is captured");
        }
        standin_measured();
    }
    cudnnMathType_t other = conv->math == CUDNN_FMA_MATH ? CUDNN_DEFAULT_MATH : conv->math;
    Perf all[] = {
        {(Algorithm)0, CUDNN_STATUS_NOT_SUPPORTED, -1, 0, CUDNN_DETERMINISTIC, conv->math, {}},
        {(Algorithm)0, shy == 2 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS, 0.1f, 0, CUDNN_NON_DETERMINISTIC, conv->math, {}},
        {(Algorithm)1, CUDNN_STATUS_SUCCESS, 0.2f, workspace_of(d, 1), shy == 2 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC, other, {}},
        {(Algorithm)1,
         CUDNN_STATUS_SUCCESS,
         0.3f,
         workspace_of(d, 1),
         shy == 2 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC,
         shy == 1 ? other : conv->math,
         {}},
    };
    *n = 0;
    for (const Perf &p : all) {
        if (*n < most) {
            list[(*n)++] = p;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

#define CHOOSE(name, Perf, Algorithm, measured, ...)                                                                                  \
    extern "C" STANDIN_CHOOSE(name, Perf, __VA_ARGS__)                                                                                \
    {                                                                                                                                 \
        struct plain_conv d;                                                                                                          \
        ENTER(#name);                                                                                                                 \
        return agree(x, w, conv, y, &d) ? choose<Perf, Algorithm>(handle, d, conv, most, n, list, measured) : CUDNN_STATUS_BAD_PARAM; \
    }
#define FORWARD_ARGS cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y
#define DATA_ARGS cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x
#define FILTER_ARGS cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t w
CHOOSE(cudnnFindConvolutionForwardAlgorithm, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t, true, FORWARD_ARGS)
CHOOSE(cudnnGetConvolutionForwardAlgorithm_v7, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t, false, FORWARD_ARGS)
CHOOSE(cudnnFindConvolutionBackwardDataAlgorithm, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t, true, DATA_ARGS)
CHOOSE(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t, false, DATA_ARGS)
CHOOSE(cudnnFindConvolutionBackwardFilterAlgorithm, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t, true, FILTER_ARGS)
CHOOSE(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t, false,
       FILTER_ARGS)

#define WORKSPACE(name, Algorithm, ...)                                                                  \
    extern "C" cudnnStatus_t name(cudnnHandle_t handle, __VA_ARGS__, Algorithm algorithm, size_t *bytes) \
    {                                                                                                    \
        struct plain_conv d;                                                                             \
        ENTER(#name);                                                                                    \
        standin_need(handle, "cuDNN handle");                                                            \
        if (!agree(x, w, conv, y, &d) || algorithm < 0 || algorithm > 1) {                               \
            return CUDNN_STATUS_BAD_PARAM;                                                               \
        }                                                                                                \
        *bytes = workspace_of(d, algorithm);                                                             \
        return CUDNN_STATUS_SUCCESS;                                                                     \
    }
WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize, cudnnConvolutionFwdAlgo_t, FORWARD_ARGS)
WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnConvolutionBwdDataAlgo_t, DATA_ARGS)
WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnConvolutionBwdFilterAlgo_t, FILTER_ARGS)

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

struct operand {
    const void *p;
    size_t n;
};

static std::vector<float> read(struct operand o, cudnnDataType_t kind, cudnnMathType_t math)
{
    std::vector<float> x(o.n);
    if (kind == CUDNN_DATA_BFLOAT16) {
        plain_widen(x.data(), (const uint16_t *)o.p, o.n);
    } else {
        memcpy(x.data(), o.p, o.n * sizeof(float));
        if (math != CUDNN_FMA_MATH) {
            plain_tf32(x.data(), o.n);
        }
    }
    return x;
}

typedef void plain_fn(const struct plain_conv &d, const float *a, const float *b, float *out);

/* Two operands in, one out. */
static cudnnStatus_t run(cudnnHandle_t handle, const struct plain_conv &d, cudnnDataType_t kind, cudnnMathType_t math, plain_fn *fn,
                         struct operand a, struct operand b, struct operand out, int algorithm, void *workspace, size_t bytes,
                         const void *alpha, const void *beta)
{
    size_t element = kind == CUDNN_DATA_BFLOAT16 ? 2 : 4, needed = workspace_of(d, algorithm);
    standin_need(handle, "cuDNN handle");
    standin_need_device(a.p, a.n * element, 16, "first operand of a convolution");
    standin_need_device(b.p, b.n * element, 16, "second operand of a convolution");
    standin_need_device(out.p, out.n * element, 16, "result of a convolution");
    if (bytes < needed || algorithm != 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    standin_need_device(workspace, needed, 16, "workspace of a convolution");
    if (*(const float *)alpha != 1 || *(const float *)beta != 0) {
        standin_die("a convolution with factors that the stand-in does not have");
    }
    return standin_push(handle->stream,
                        [=] {
                            memset(workspace, 0xff, needed); /* whatever stood there is gone */
                            std::vector<float> x = read(a, kind, math), y = read(b, kind, math), z(out.n);
                            fn(d, x.data(), y.data(), z.data());
                            if (kind == CUDNN_DATA_BFLOAT16) {
                                plain_round((uint16_t *)out.p, z.data(), out.n);
                            } else {
                                memcpy((void *)out.p, z.data(), out.n * sizeof(float));
                            }
                        }) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}

static size_t x_count(const struct plain_conv &d)
{
    return (size_t)d.n * d.h * d.w * d.c;
}
static size_t y_count(const struct plain_conv &d)
{
    return (size_t)d.n * d.oh * d.ow * d.k;
}
static size_t w_count(const struct plain_conv &d)
{
    return (size_t)d.k * d.kh * d.kw * d.c;
}

extern "C" cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x, const void *px,
                                                 cudnnFilterDescriptor_t w, const void *pw, cudnnConvolutionDescriptor_t conv,
                                                 cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes, const void *beta,
                                                 cudnnTensorDescriptor_t y, void *py)
{
    struct plain_conv d;
    ENTER("cudnnConvolutionForward");
    if (!agree(x, w, conv, y, &d)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    return run(handle, d, x->kind, conv->math, plain_forward, {px, x_count(d)}, {pw, w_count(d)}, {py, y_count(d)}, algorithm, workspace,
               bytes, alpha, beta);
}

extern "C" cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t w, const void *pw,
                                                      cudnnTensorDescriptor_t y, const void *py, cudnnConvolutionDescriptor_t conv,
                                                      cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace, size_t bytes,
                                                      const void *beta, cudnnTensorDescriptor_t x, void *px)
{
    struct plain_conv d;
    ENTER("cudnnConvolutionBackwardData");
    if (!agree(x, w, conv, y, &d)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    return run(handle, d, x->kind, conv->math, plain_data, {pw, w_count(d)}, {py, y_count(d)}, {px, x_count(d)}, algorithm, workspace,
               bytes, alpha, beta);
}

extern "C" cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x, const void *px,
                                                        cudnnTensorDescriptor_t y, const void *py, cudnnConvolutionDescriptor_t conv,
                                                        cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace, size_t bytes,
                                                        const void *beta, cudnnFilterDescriptor_t w, void *pw)
{
    struct plain_conv d;
    ENTER("cudnnConvolutionBackwardFilter");
    if (!agree(x, w, conv, y, &d)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    return run(handle, d, x->kind, conv->math, plain_filter, {px, x_count(d)}, {py, y_count(d)}, {pw, w_count(d)}, algorithm, workspace,
               bytes, alpha, beta);
}

/* Element by element: relu, bias with relu, sums of gradients, rounding; and flatten where the
 * order of the elements matters. Twin of cpu/pointwise.c; each kernel has its shapes above it.
 *
 * Threads read and write 16 bytes at once. Relu keeps NaN, so that it stays visible in the loss;
 * "x > 0 ? x : 0" would hide it.
 */
#include "kernels/cuda/pointwise.h"

#include "kernels/cuda/columns.h"
#include "kernels/cuda/elements.h"

struct f_relu {
    static constexpr const char *name = "relu";
    DEVICE_FN_MEMBER float of(float a, float b) const
    {
        return port_relu(a);
    }
};
struct f_mask {
    static constexpr const char *name = "mask";
    DEVICE_FN_MEMBER float of(float a, float b) const
    {
        return b > 0 ? a : 0;
    }
};

template <typename F, typename To, typename From>
static int run(struct cuda_program *p, F f, To *out, const From *a, const From *b, size_t n,
               const char *what, struct err *e)
{
    return elements_each(p->dev, p->dev->build, f, out, a, b, n, what, e);
}

int pointwise_relu_mask(struct cuda_program *p, void *grad, const void *data, size_t n,
                        struct err *e)
{
    CUDA_KIND(p, T,
              return run(p, f_mask{}, (T *)grad, (const T *)grad, (const T *)data, n,
                         "mask a gradient", e));
}

int pointwise_add(struct cuda_program *p, void *a, const void *b, size_t n, struct err *e)
{
    CUDA_KIND(
        p, T,
        return run(p, f_sum{false}, (T *)a, (const T *)a, (const T *)b, n, "add gradients", e));
}

int pointwise_copy(struct cuda_program *p, void *to, const void *from, size_t n, struct err *e)
{
    return cuda_check(
        cudaMemcpyAsync(to, from, n * cuda_element(p), cudaMemcpyDeviceToDevice, p->dev->build),
        "copy on the GPU", e);
}

int pointwise_round(struct cuda_program *p, struct bf16 *to, const float *from, size_t n,
                    struct err *e)
{
    return run(p, f_convert{}, to, from, (const float *)NULL, n, "round to bf16", e);
}

int pointwise_widen(struct cuda_program *p, float *to, const struct bf16 *from, size_t n,
                    cudaStream_t stream, struct err *e)
{
    return elements_each(p->dev, stream, f_convert{}, to, from, (const struct bf16 *)NULL, n,
                         "widen bf16", e);
}

/* ---- bias ------------------------------------------------------------------------------------ */

/* y: [rows][channels], n = rows*channels; WHOLE: channels are a multiple of what a thread takes at
 * once */
template <typename T, bool WHOLE>
KERNEL add_bias(T *y, const float *bias, bool relu, size_t n, unsigned channels)
{
    constexpr int N = port_pack<T>::N;
    size_t packs = n / N;
    for (size_t i = port_index(); i < packs; i += port_stride()) {
        port_some<T, N> x = ((port_some<T, N> *)y)[i];
        port_some<float, N> added =
            column_numbers<N, WHOLE>(bias, (unsigned)(i * N % channels), channels);
        for (int k = 0; k < N; k++) {
            float v = port_float(x.v[k]) + added.v[k];
            x.v[k] = port_from<T>(relu ? port_relu(v) : v);
        }
        ((port_some<T, N> *)y)[i] = x;
    }
    for (size_t i = packs * N + port_index(); i < n; i += port_stride()) {
        float v = port_float(y[i]) + bias[i % channels];
        y[i] = port_from<T>(relu ? port_relu(v) : v);
    }
}

int pointwise_bias(struct cuda_program *p, void *y, const float *bias, bool relu, size_t rows,
                   size_t channels, struct err *e)
{
    size_t n = rows * channels;
    if (!bias && !relu) {
        return 0;
    }
    if (!bias) {
        CUDA_KIND(
            p, T,
            return run(p, f_relu{}, (T *)y, (const T *)y, (const T *)NULL, n, "apply a relu", e));
    }
    unsigned blocks = cuda_blocks(p->dev, n / 4 + 1);
    CUDA_PACKS(p, channels, T, N,
               return cuda_check(LAUNCH((add_bias<T, (N > 1)>), blocks, 2 * n * sizeof(T),
                                        p->dev->build, (T *)y, bias, relu, n, (unsigned)channels),
                                 "add a bias", e));
}

/* grad, y: [rows][channels]; out: [channels] */
template <typename T, int N>
KERNEL mask_and_sum(float *out, T *grad, const T *y, struct cuda_parts parts, bool relu,
                    size_t rows, struct columns c)
{
    typedef port_some<T, N> pack;
    SHARED double shared[N * PORT_THREADS];
    struct column t = column_of<N>(c, rows);
    float sums[N] = {};
    for (size_t i = t.first; i < t.last; i += t.step) {
        size_t at = i * c.channels + t.channel;
        pack g = *(const pack *)(grad + at);
        if (relu) {
            g = port_masked(g, *(const pack *)(y + at));
            *(pack *)(grad + at) = g;
        }
        port_add(sums, g);
    }
    column_sum<N>(t, sums, (float *)shared);
    column_sums<1, N>(
        c, t, sums, parts, shared,
        [](double *all, const float *found, unsigned) {
            for (int k = 0; k < N; k++) {
                all[k] += (double)found[k];
            }
        },
        [&](size_t channel, const double *all) { out[channel] = (float)all[0]; });
}

/* Rows of a step's output, each with as many channels as its layer has units. */
static size_t rows_of(const struct cuda_program *p, const struct cuda_step *s)
{
    return (size_t)p->head.batch * s->out->count / (size_t)s->layer->units;
}

void pointwise_reserve_bias(struct cuda_program *p, const struct cuda_step *s)
{
    if (s->layer->bias) {
        columns_reserve(p, columns_cut(p, rows_of(p, s), (size_t)s->layer->units, 0), 1);
    }
}

bool pointwise_masks(const struct cuda_step *s)
{
    return s->relu && !s->leaves;
}

int pointwise_bias_backward(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream,
                            struct err *e)
{
    const struct cuda_parts parts = stream == p->dev->branch ? p->branch.parts : p->parts;
    size_t rows = rows_of(p, s), channels = (size_t)s->layer->units;
    bool relu = pointwise_masks(s);
    if (!s->layer->bias) {
        return relu ? pointwise_relu_mask(p, s->out->grad, s->out->data, rows * channels, e) : 0;
    }
    struct columns c = columns_cut(p, rows, channels, 0);
    CUDA_PACKS(
        p, channels, T, N,
        return cuda_check(LAUNCH((mask_and_sum<T, N>), c.tiles * c.chunks,
                                 (relu ? 3 : 1) * rows * channels * sizeof(T) + columns_bytes(c, 1),
                                 stream, cuda_param_grad(p, s, 1), (T *)s->out->grad,
                                 (const T *)s->out->data, parts, relu, rows, c),
                          "sum the gradient of a bias", e));
}

/* ---- relu, where it could not become a part of the layer before it --------------------------- */

static size_t elements(const struct cuda_program *p, const struct cuda_value *v)
{
    return (size_t)p->head.batch * v->count;
}

static int relu_forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t n = elements(p, s->out);
    CUDA_KIND(p, T,
              return run(p, f_relu{}, (T *)s->out->data, (const T *)s->in[0]->data, (const T *)NULL,
                         n, "apply a relu", e));
}

static int relu_backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t n = elements(p, s->out);
    CUDA_KIND(p, T,
              return run(p, f_mask{}, (T *)*s->in_grad[0], (const T *)s->out->grad,
                         (const T *)s->out->data, n, "mask a gradient", e));
}

const struct cuda_op cuda_relu = {
    .name = "relu",
    .keeps_shape = true,
    .forward = relu_forward,
    .backward = relu_backward,
};

/* ---- flatten, where the order of the elements is seen ---------------------------------------- */

/* to: [sample][channel][pixel], from: [sample][pixel][channel]; back the other way. One thread per
 * element written. */
template <typename T> KERNEL flatten(T *to, const T *from, unsigned inner, unsigned outer, size_t n)
{
    size_t plane = (size_t)inner * outer;
    for (size_t i = port_index(); i < n; i += port_stride()) {
        size_t rest = i % plane;
        to[i] = from[i - rest + rest % inner * outer + rest / inner];
    }
}

int pointwise_flatten(struct cuda_program *p, void *to, const void *from, const struct shape *image,
                      bool to_vector, struct err *e)
{
    unsigned area = (unsigned)(image->dim[0] * image->dim[1]), c = (unsigned)image->dim[2];
    size_t n = (size_t)p->head.batch * area * c;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH(flatten<T>, cuda_blocks(p->dev, n), 2 * n * sizeof(T),
                                       p->dev->build, (T *)to, (const T *)from,
                                       to_vector ? area : c, to_vector ? c : area, n),
                                "flatten images", e));
}

static int flatten_forward(struct cuda_program *p, struct cuda_step *s, bool training,
                           struct err *e)
{
    return pointwise_flatten(p, s->out->data, s->in[0]->data, &s->in[0]->shape, true, e);
}

static int flatten_backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    return pointwise_flatten(p, *s->in_grad[0], s->out->grad, &s->in[0]->shape, false, e);
}

const struct cuda_op cuda_flatten = {
    .name = "flatten",
    .forward = flatten_forward,
    .backward = flatten_backward,
};

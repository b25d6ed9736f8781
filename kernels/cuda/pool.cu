/* Max and average pooling, twin of cpu/pool.c. x [batch][h][w][c], y [batch][oh][ow][c].
 *
 * Our own kernels. The forward pass of a max pool keeps which element of its window each maximum
 * was (the first, where several are equal). The backward pass has one thread per pack of the input,
 * which reads all windows that contain it. So there are no atomic additions, a run gives the same
 * bits each time, and no element of the gradient must be cleared first. A mean counts the zeros of
 * the padding.
 *
 * A max pool also adds the bias of the convolution before it and applies its relu to the maximum
 * (cuda_step.finishes): the convolution's output is read once, and its gradient is masked already.
 *
 * A pack is N neighbouring channels of a pixel, 16 bytes, which a thread reads and writes at once;
 * N = 1 where channels are no multiple.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

struct pool {
    void *argmax; /* [batch][oh][ow][c] uint8_t, or uint32_t where a window is larger than 256; max
                     pools only */
    bool wide;
};

struct window {
    int h, w, oh, ow, kernel[2], stride[2], padding[2];
    unsigned packs; /* of a pixel */
};

static struct window window_of(const struct cuda_step *s, unsigned pack)
{
    const struct layer *l = s->layer;
    const struct shape *in = &s->in[0]->shape, *out = &s->out->shape;
    return {in->dim[0],
            in->dim[1],
            out->dim[0],
            out->dim[1],
            {l->kernel[0], l->kernel[1]},
            {l->stride[0], l->stride[1]},
            {l->padding[0], l->padding[1]},
            (unsigned)in->dim[2] / pack};
}

/* A pack [sample][row][column][pack] of an image of `width` columns and `height` rows. */
struct spot {
    size_t sample;
    int row, column;
    unsigned pack;
};
DEVICE_FN struct spot spot_of(size_t i, int height, int width, unsigned packs)
{
    struct spot s;
    size_t pixel = i / packs, area = (size_t)height * width;
    unsigned rest = (unsigned)(pixel % area);
    s.pack = (unsigned)(i % packs);
    s.sample = pixel / area;
    s.row = (int)(rest / (unsigned)width);
    s.column = (int)(rest % (unsigned)width);
    return s;
}

template <typename T, int N> DEVICE_FN port_some<T, N> packed(const float *v, float share)
{
    port_some<T, N> r;
    for (int k = 0; k < N; k++) {
        r.v[k] = port_from<T>(v[k] * share);
    }
    return r;
}

/* ---- max ------------------------------------------------------------------------------------- */

/* bias: of each channel, or NULL. It is added and rounded before numbers are compared, as an
 * earlier step would do. */
template <typename T, typename Place, int N>
KERNEL max_forward(port_some<T, N> *y, port_some<Place, N> *argmax, const port_some<T, N> *x,
                   const float *bias, bool relu, struct window w, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.oh, w.ow, w.packs);
        int top = s.row * w.stride[0] - w.padding[0], left = s.column * w.stride[1] - w.padding[1];
        const port_some<T, N> *image = x + s.sample * w.h * w.w * w.packs + s.pack;
        float best[N] = {};
        int place[N];
        bool any = false;
        port_some<float, N> added = {};
        if (bias) {
            added = ((const port_some<float, N> *)bias)[s.pack];
        }
        for (int k = 0; k < N; k++) {
            place[k] = 0;
        }
        for (int row = top < 0 ? 0 : top; row < top + w.kernel[0] && row < w.h; row++) {
            for (int column = left < 0 ? 0 : left; column < left + w.kernel[1] && column < w.w;
                 column++) {
                port_some<T, N> v = image[((size_t)row * w.w + column) * w.packs];
                for (int k = 0; k < N; k++) {
                    float here = bias ? port_float(port_from<T>(port_float(v.v[k]) + added.v[k]))
                                      : port_float(v.v[k]);
                    if (!any || here > best[k] ||
                        (here != here && best[k] == best[k])) { /* NaN wins */
                        best[k] = here;
                        place[k] = (row - top) * w.kernel[1] + column - left;
                    }
                }
                any = true;
            }
        }
        port_some<T, N> to;
        port_some<Place, N> at;
        for (int k = 0; k < N; k++) {
            to.v[k] = port_from<T>(relu ? port_relu(best[k]) : best[k]);
            at.v[k] = (Place)place[k];
        }
        y[i] = to;
        argmax[i] = at;
    }
}

/* Windows along one axis that contain element `at`: first … last. */
DEVICE_FN void windows_of(int at, int kernel, int stride, int padding, int windows, int *first,
                          int *last)
{
    int from = at + padding - kernel + 1;
    *first = from <= 0 ? 0 : (from + stride - 1) / stride;
    *last = (at + padding) / stride < windows - 1 ? (at + padding) / stride : windows - 1;
}

template <typename T, typename Place, int N>
KERNEL max_backward(port_some<T, N> *dx, const port_some<T, N> *dy, const port_some<T, N> *y,
                    const port_some<Place, N> *argmax, bool relu, struct window w, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.h, w.w, w.packs);
        size_t image = s.sample * w.oh * w.ow * w.packs + s.pack;
        int top, bottom, left, right;
        float sum[N] = {};
        windows_of(s.row, w.kernel[0], w.stride[0], w.padding[0], w.oh, &top, &bottom);
        windows_of(s.column, w.kernel[1], w.stride[1], w.padding[1], w.ow, &left, &right);
        for (int r = top; r <= bottom; r++) {
            for (int c = left; c <= right; c++) {
                int mine = (s.row + w.padding[0] - r * w.stride[0]) * w.kernel[1] + s.column +
                           w.padding[1] - c * w.stride[1];
                size_t at = image + ((size_t)r * w.ow + c) * w.packs;
                port_some<Place, N> place = argmax[at];
                port_some<T, N> g = relu ? port_masked(dy[at], y[at]) : dy[at];
                for (int k = 0; k < N; k++) {
                    sum[k] += (int)place.v[k] == mine ? port_float(g.v[k]) : 0;
                }
            }
        }
        dx[i] = packed<T, N>(sum, 1);
    }
}

/* ---- average --------------------------------------------------------------------------------- */

template <typename T, int N>
KERNEL average_forward(port_some<T, N> *y, const port_some<T, N> *x, struct window w, size_t n)
{
    float share = 1.0f / (float)(w.kernel[0] * w.kernel[1]);
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.oh, w.ow, w.packs);
        int top = s.row * w.stride[0] - w.padding[0], left = s.column * w.stride[1] - w.padding[1];
        const port_some<T, N> *image = x + s.sample * w.h * w.w * w.packs + s.pack;
        float sum[N] = {};
        for (int row = top < 0 ? 0 : top; row < top + w.kernel[0] && row < w.h; row++) {
            for (int column = left < 0 ? 0 : left; column < left + w.kernel[1] && column < w.w;
                 column++) {
                port_add(sum, image[((size_t)row * w.w + column) * w.packs]);
            }
        }
        y[i] = packed<T, N>(sum, share);
    }
}

template <typename T, int N>
KERNEL average_backward(port_some<T, N> *dx, const port_some<T, N> *dy, struct window w, size_t n)
{
    float share = 1.0f / (float)(w.kernel[0] * w.kernel[1]);
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.h, w.w, w.packs);
        const port_some<T, N> *image = dy + s.sample * w.oh * w.ow * w.packs + s.pack;
        int top, bottom, left, right;
        float sum[N] = {};
        windows_of(s.row, w.kernel[0], w.stride[0], w.padding[0], w.oh, &top, &bottom);
        windows_of(s.column, w.kernel[1], w.stride[1], w.padding[1], w.ow, &left, &right);
        for (int r = top; r <= bottom; r++) {
            for (int c = left; c <= right; c++) {
                port_add(sum, image[((size_t)r * w.ow + c) * w.packs]);
            }
        }
        dx[i] = packed<T, N>(sum, share);
    }
}

/* ---- the operators --------------------------------------------------------------------------- */

static bool is_max(const struct cuda_step *s)
{
    return s->layer->type == CAT_LAYER_MAX_POOL;
}

static bool bends(const struct cuda_step *s)
{
    return s->finishes && s->finishes->relu;
}

static int prepare(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct pool *pool = (struct pool *)calloc(1, sizeof(*pool));
    if (!pool) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = pool;
    pool->wide = (size_t)s->layer->kernel[0] * (size_t)s->layer->kernel[1] > 256;
    size_t n = (size_t)p->head.batch * s->out->count;
    return is_max(s) ? cuda_reserve_bytes(&p->arena, &pool->argmax,
                                          n * (pool->wide ? sizeof(uint32_t) : 1), true, e)
                     : 0;
}

/* Bytes of both images, and of a max pool's positions. */
static size_t bytes_of(const struct cuda_program *p, const struct cuda_step *s, size_t element)
{
    const struct pool *pool = (const struct pool *)s->state;
    size_t argmax = !is_max(s) ? 0 : pool->wide ? sizeof(uint32_t) : 1;
    return (size_t)p->head.batch * (s->in[0]->count * element + s->out->count * (element + argmax));
}

template <typename T, int N>
static cudaError_t launch_forward(struct cuda_program *p, struct cuda_step *s)
{
    typedef port_some<T, N> pack;
    struct pool *pool = (struct pool *)s->state;
    struct window w = window_of(s, N);
    size_t n = (size_t)p->head.batch * s->out->count / N;
    unsigned blocks = cuda_blocks(p->dev, n);
    size_t bytes = bytes_of(p, s, sizeof(T));
    pack *y = (pack *)s->out->data;
    const pack *x = (const pack *)s->in[0]->data;
    const struct cuda_step *before = s->finishes;
    const float *bias = before && before->layer->bias ? cuda_param(p, before, 1) : NULL;
    if (!is_max(s)) {
        return LAUNCH((average_forward<T, N>), blocks, bytes, p->dev->build, y, x, w, n);
    }
    if (pool->wide) {
        return LAUNCH((max_forward<T, uint32_t, N>), blocks, bytes, p->dev->build, y,
                      (port_some<uint32_t, N> *)pool->argmax, x, bias, bends(s), w, n);
    }
    return LAUNCH((max_forward<T, uint8_t, N>), blocks, bytes, p->dev->build, y,
                  (port_some<uint8_t, N> *)pool->argmax, x, bias, bends(s), w, n);
}

template <typename T, int N>
static cudaError_t launch_backward(struct cuda_program *p, struct cuda_step *s)
{
    typedef port_some<T, N> pack;
    struct pool *pool = (struct pool *)s->state;
    struct window w = window_of(s, N);
    size_t n = (size_t)p->head.batch * s->in[0]->count / N,
           mask = bends(s) ? (size_t)p->head.batch * s->out->count * sizeof(T) : 0;
    unsigned blocks = cuda_blocks(p->dev, n);
    size_t bytes = bytes_of(p, s, sizeof(T)) + mask;
    pack *dx = (pack *)*s->in_grad[0];
    const pack *dy = (const pack *)s->out->grad, *y = (const pack *)s->out->data;
    if (!is_max(s)) {
        return LAUNCH((average_backward<T, N>), blocks, bytes, p->dev->build, dx, dy, w, n);
    }
    if (pool->wide) {
        return LAUNCH((max_backward<T, uint32_t, N>), blocks, bytes, p->dev->build, dx, dy, y,
                      (const port_some<uint32_t, N> *)pool->argmax, bends(s), w, n);
    }
    return LAUNCH((max_backward<T, uint8_t, N>), blocks, bytes, p->dev->build, dx, dy, y,
                  (const port_some<uint8_t, N> *)pool->argmax, bends(s), w, n);
}

static size_t channels_of(const struct cuda_step *s)
{
    return (size_t)s->in[0]->shape.dim[2];
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    CUDA_PACKS(p, channels_of(s), T, N, return cuda_check((launch_forward<T, N>(p, s)), "pool", e));
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    CUDA_PACKS(p, channels_of(s), T, N,
               return cuda_check((launch_backward<T, N>(p, s)), "run the gradient of pooling", e));
}

static void release(struct cuda_step *s)
{
    free(s->state);
    s->state = NULL;
}

const struct cuda_op cuda_max_pool = {
    .name = "max pooling",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};

const struct cuda_op cuda_average_pool = {
    .name = "average pooling",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};

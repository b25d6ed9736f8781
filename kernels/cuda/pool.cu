/* Max and average pooling, twin of cpu/pool.c. x [batch][h][w][c], y [batch][oh][ow][c].
 *
 * Our own kernels: the forward pass of a max pool remembers which element of its window each maximum was (the first, where several are
 * equal), and the backward pass has one thread per element of the input, which looks at the windows that it stands in. So nothing is added
 * by atomic operations, a run gives the same bits each time, and no element of the gradient must be cleared first. A mean counts the zeros
 * of the padding.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

struct pool {
    void *places; /* [batch][oh][ow][c] uint8_t, or uint32_t where a window is larger than 256; max pools only */
    bool wide;
};

struct window {
    int h, w, oh, ow, kernel[2], stride[2], padding[2];
    unsigned channels;
};

static struct window window_of(const struct cuda_step *s)
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
            (unsigned)in->dim[2]};
}

/* An element [sample][row][column][channel] of an image of `width` columns and `height` rows. */
struct spot {
    size_t sample;
    int row, column;
    unsigned channel;
};
DEVICE_FN struct spot spot_of(size_t i, int height, int width, unsigned channels)
{
    struct spot s;
    size_t pixel = i / channels, area = (size_t)height * width;
    unsigned rest = (unsigned)(pixel % area);
    s.channel = (unsigned)(i % channels);
    s.sample = pixel / area;
    s.row = (int)(rest / (unsigned)width);
    s.column = (int)(rest % (unsigned)width);
    return s;
}

/* ---- max ---------------------------------------------------------------------------------------------------------------- */

template <typename T, typename Place> KERNEL max_forward(T *y, Place *places, const T *x, struct window w, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.oh, w.ow, w.channels);
        int top = s.row * w.stride[0] - w.padding[0], left = s.column * w.stride[1] - w.padding[1];
        const T *image = x + s.sample * w.h * w.w * w.channels + s.channel;
        float best = 0;
        int place = -1;
        for (int r = 0; r < w.kernel[0]; r++) {
            for (int c = 0; c < w.kernel[1]; c++) {
                int row = top + r, column = left + c;
                if (row < 0 || column < 0 || row >= w.h || column >= w.w) {
                    continue;
                }
                float v = port_float(image[((size_t)row * w.w + column) * w.channels]);
                if (place < 0 || v > best || (v != v && best == best)) { /* not a number stays visible */
                    best = v;
                    place = r * w.kernel[1] + c;
                }
            }
        }
        y[i] = port_from<T>(best);
        places[i] = (Place)(place < 0 ? 0 : place);
    }
}

/* Windows along one axis that element `at` stands in: first … last. */
DEVICE_FN void windows_of(int at, int kernel, int stride, int padding, int windows, int *first, int *last)
{
    int from = at + padding - kernel + 1;
    *first = from <= 0 ? 0 : (from + stride - 1) / stride;
    *last = (at + padding) / stride < windows - 1 ? (at + padding) / stride : windows - 1;
}

template <typename T, typename Place> KERNEL max_backward(T *dx, const T *dy, const Place *places, struct window w, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.h, w.w, w.channels);
        size_t image = s.sample * w.oh * w.ow * w.channels + s.channel;
        int top, bottom, left, right;
        float sum = 0;
        windows_of(s.row, w.kernel[0], w.stride[0], w.padding[0], w.oh, &top, &bottom);
        windows_of(s.column, w.kernel[1], w.stride[1], w.padding[1], w.ow, &left, &right);
        for (int r = top; r <= bottom; r++) {
            for (int c = left; c <= right; c++) {
                int mine = (s.row + w.padding[0] - r * w.stride[0]) * w.kernel[1] + s.column + w.padding[1] - c * w.stride[1];
                size_t at = image + ((size_t)r * w.ow + c) * w.channels;
                sum += (int)places[at] == mine ? port_float(dy[at]) : 0;
            }
        }
        dx[i] = port_from<T>(sum);
    }
}

/* ---- average -------------------------------------------------------------------------------------------------------------- */

template <typename T> KERNEL average_forward(T *y, const T *x, struct window w, size_t n)
{
    float share = 1.0f / (float)(w.kernel[0] * w.kernel[1]);
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.oh, w.ow, w.channels);
        int top = s.row * w.stride[0] - w.padding[0], left = s.column * w.stride[1] - w.padding[1];
        const T *image = x + s.sample * w.h * w.w * w.channels + s.channel;
        float sum = 0;
        for (int row = top < 0 ? 0 : top; row < top + w.kernel[0] && row < w.h; row++) {
            for (int column = left < 0 ? 0 : left; column < left + w.kernel[1] && column < w.w; column++) {
                sum += port_float(image[((size_t)row * w.w + column) * w.channels]);
            }
        }
        y[i] = port_from<T>(sum * share);
    }
}

template <typename T> KERNEL average_backward(T *dx, const T *dy, struct window w, size_t n)
{
    float share = 1.0f / (float)(w.kernel[0] * w.kernel[1]);
    for (size_t i = port_index(); i < n; i += port_stride()) {
        struct spot s = spot_of(i, w.h, w.w, w.channels);
        const T *image = dy + s.sample * w.oh * w.ow * w.channels + s.channel;
        int top, bottom, left, right;
        float sum = 0;
        windows_of(s.row, w.kernel[0], w.stride[0], w.padding[0], w.oh, &top, &bottom);
        windows_of(s.column, w.kernel[1], w.stride[1], w.padding[1], w.ow, &left, &right);
        for (int r = top; r <= bottom; r++) {
            for (int c = left; c <= right; c++) {
                sum += port_float(image[((size_t)r * w.ow + c) * w.channels]);
            }
        }
        dx[i] = port_from<T>(sum * share);
    }
}

/* ---- the operators ---------------------------------------------------------------------------------------------------------- */

static bool is_max(const struct cuda_step *s)
{
    return s->layer->type == CAT_LAYER_MAX_POOL;
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
    return is_max(s) ? cuda_want_bytes(&p->arena, &pool->places, n * (pool->wide ? sizeof(uint32_t) : 1), true, e) : 0;
}

/* Both images, and what a max pool remembers. */
static size_t bytes_of(const struct cuda_program *p, const struct cuda_step *s, size_t element)
{
    const struct pool *pool = (const struct pool *)s->state;
    size_t places = !is_max(s) ? 0 : pool->wide ? sizeof(uint32_t) : 1;
    return (size_t)p->head.batch * (s->in[0]->count * element + s->out->count * (element + places));
}

template <typename T> static cudaError_t launch_forward(struct cuda_program *p, struct cuda_step *s)
{
    struct pool *pool = (struct pool *)s->state;
    size_t n = (size_t)p->head.batch * s->out->count;
    unsigned blocks = cuda_blocks(p->dev, n);
    size_t bytes = bytes_of(p, s, sizeof(T));
    T *y = (T *)s->out->data;
    const T *x = (const T *)s->in[0]->data;
    if (!is_max(s)) {
        return LAUNCH(average_forward<T>, blocks, bytes, p->dev->build, y, x, window_of(s), n);
    }
    if (pool->wide) {
        return LAUNCH((max_forward<T, uint32_t>), blocks, bytes, p->dev->build, y, (uint32_t *)pool->places, x, window_of(s), n);
    }
    return LAUNCH((max_forward<T, uint8_t>), blocks, bytes, p->dev->build, y, (uint8_t *)pool->places, x, window_of(s), n);
}

template <typename T> static cudaError_t launch_backward(struct cuda_program *p, struct cuda_step *s)
{
    struct pool *pool = (struct pool *)s->state;
    size_t n = (size_t)p->head.batch * s->in[0]->count;
    unsigned blocks = cuda_blocks(p->dev, n);
    size_t bytes = bytes_of(p, s, sizeof(T));
    T *dx = (T *)*s->in_grad[0];
    const T *dy = (const T *)s->out->grad;
    if (!is_max(s)) {
        return LAUNCH(average_backward<T>, blocks, bytes, p->dev->build, dx, dy, window_of(s), n);
    }
    if (pool->wide) {
        return LAUNCH((max_backward<T, uint32_t>), blocks, bytes, p->dev->build, dx, dy, (const uint32_t *)pool->places, window_of(s), n);
    }
    return LAUNCH((max_backward<T, uint8_t>), blocks, bytes, p->dev->build, dx, dy, (const uint8_t *)pool->places, window_of(s), n);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    CUDA_KIND(p, T, return cuda_check(launch_forward<T>(p, s), "pool", e));
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    CUDA_KIND(p, T, return cuda_check(launch_backward<T>(p, s), "run the gradient of pooling", e));
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

/* The mean of each channel over the whole image, twin of cpu/global_pool.c: x [batch][area][c], y [batch][c]. One thread per output;
 * threads of a warp read neighbouring channels.
 */
#include "kernels/cuda/cuda.h"

template <typename T> KERNEL mean(T *y, const T *x, size_t area, size_t channels, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        const T *from = x + i / channels * area * channels + i % channels;
        float sum = 0;
        for (size_t k = 0; k < area; k++) {
            sum += port_float(from[k * channels]);
        }
        y[i] = port_from<T>(sum / (float)area);
    }
}

template <typename T> KERNEL spread(T *dx, const T *dy, size_t area, size_t channels, size_t n)
{
    float share = 1.0f / (float)area;
    for (size_t i = port_index(); i < n; i += port_stride()) {
        dx[i] = port_from<T>(port_float(dy[i / (area * channels) * channels + i % channels]) * share);
    }
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t c = s->out->count, area = s->in[0]->count / c, n = (size_t)p->head.batch * c;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH(mean<T>, cuda_blocks(p->dev, n), (area + 1) * n * sizeof(T), p->dev->build, (T *)s->out->data,
                                       (const T *)s->in[0]->data, area, c, n),
                                "pool over an image", e));
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t c = s->out->count, area = s->in[0]->count / c, n = (size_t)p->head.batch * area * c;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH(spread<T>, cuda_blocks(p->dev, n), (n + n / area) * sizeof(T), p->dev->build, (T *)*s->in_grad[0],
                                       (const T *)s->out->grad, area, c, n),
                                "run the gradient of pooling over an image", e));
}

const struct cuda_op cuda_global_pool = {
    .name = "global average pooling",
    .forward = forward,
    .backward = backward,
};

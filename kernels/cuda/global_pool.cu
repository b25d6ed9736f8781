/* The mean of each channel over the whole image, twin of cpu/global_pool.c: x [batch][area][c], y
 * [batch][c]. Sums over columns, with an image as a chunk (columns.h).
 */
#include "kernels/cuda/columns.h"

template <typename T, int N> KERNEL mean(T *y, const T *x, size_t rows, struct columns c)
{
    SHARED float shared[N * PORT_THREADS];
    struct column t = column_of<N>(c, rows);
    float sums[N] = {};
    for (size_t i = t.first; i < t.last; i += t.step) {
        port_add(sums, *(const port_some<T, N> *)(x + i * c.channels + t.channel));
    }
    column_sum<N>(t, sums, shared);
    for (int k = 0; t.writes && k < N; k++) {
        y[t.chunk * c.channels + t.channel + k] = port_from<T>(sums[k] / (float)c.chunk);
    }
}

/* n packs, `packs` of them in a pixel */
template <typename T, int N>
KERNEL spread(port_some<T, N> *dx, const port_some<T, N> *dy, size_t area, size_t packs, size_t n)
{
    float share = 1.0f / (float)area;
    for (size_t i = port_index(); i < n; i += port_stride()) {
        port_some<T, N> v = dy[i / (area * packs) * packs + i % packs];
        for (int k = 0; k < N; k++) {
            v.v[k] = port_from<T>(port_float(v.v[k]) * share);
        }
        dx[i] = v;
    }
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t c = s->out->count, area = s->in[0]->count / c, rows = (size_t)p->head.batch * area;
    struct columns cut = columns_cut(p, rows, c, area);
    CUDA_PACKS(p, c, T, N,
               return cuda_check(LAUNCH((mean<T, N>), cut.tiles * cut.chunks,
                                        (area + 1) * p->head.batch * c * sizeof(T), p->dev->build,
                                        (T *)s->out->data, (const T *)s->in[0]->data, rows, cut),
                                 "pool over an image", e));
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t c = s->out->count, area = s->in[0]->count / c, n = (size_t)p->head.batch * area * c;
    CUDA_PACKS(p, c, T, N,
               return cuda_check(LAUNCH((spread<T, N>), cuda_blocks(p->dev, n / N),
                                        (n + n / area) * sizeof(T), p->dev->build,
                                        (port_some<T, N> *)*s->in_grad[0],
                                        (const port_some<T, N> *)s->out->grad, area, c / N, n / N),
                                 "run the gradient of pooling over an image", e));
}

const struct cuda_op cuda_global_pool = {
    .name = "global average pooling",
    .forward = forward,
    .backward = backward,
};

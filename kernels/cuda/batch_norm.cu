/* Batch norm over the samples of this minibatch, twin of cpu/batch_norm.c, which has the formulas.
 * x, y: [rows][channels], rows = all pixels of all samples.
 *
 *   forward    measure: mean of each chunk of rows, and squares around it, merged per channel;
 *              running statistics
 *              apply (and add another value, where a sum follows; and a relu)
 *   backward   collect: sums of dy and dy·(x - mean) of each chunk, and of all; dbias, dweight,
 *              coefficients
 *              apply
 *
 * These are our own kernels and not cuDNN's, because a minibatch may have fewer samples than the
 * program, and rows of the others must enter neither statistics nor sums. The number of samples is
 * in device memory, so one graph serves every number. Each chunk has its own mean, which keeps the
 * squares exact where the mean is large (so do every few rows of a thread); chunks are merged in
 * double, in a fixed order.
 */
#include <stdlib.h>

#include "kernels/cuda/columns.h"
#include "kernels/cuda/pointwise.h"

struct batch_norm {
    struct columns cut;
    float *mean, *inverse; /* [channels] of this pass; inverse = 1/sqrt(variance + eps) */
    float *scale, *shift,
        *slope; /* [channels] y = scale*x + shift; in backward dx = scale*dy + slope*x + shift */
};

/* ---- forward --------------------------------------------------------------------------------- */

/* The statistics of some rows of N channels: N means, N sums of squares around them, and the number
 * of rows. */
template <int N> struct measured {
    static constexpr int FLOATS = 2 * N + 1;
    float v[FLOATS];
};

/* Joins two such statistics (Chan, Golub, LeVeque 1979, 2.1). */
template <int N> DEVICE_FN void measured_join(float *m, const float *other)
{
    float rows = m[2 * N], all = rows + other[2 * N], share = all > 0 ? other[2 * N] / all : 0;
    for (int k = 0; k < N; k++) {
        float d = other[k] - m[k];
        m[k] += d * share;
        m[N + k] += other[N + k] + d * d * (rows * share);
    }
    m[2 * N] = all;
}

/* The statistics of a thread's rows from row `i` on. It reads at most TOGETHER rows, once, into
 * registers. */
enum { TOGETHER = 4 };
template <typename T, int N>
DEVICE_FN measured<N> measure_some(const T *x, size_t i, const struct column &t, size_t channels)
{
    port_some<T, N> v[TOGETHER];
    measured<N> m = {};
    int rows = 0;
    for (int r = 0; r < TOGETHER; r++) {
        if (i + r * t.step < t.last) {
            v[r] = *(const port_some<T, N> *)(x + (i + r * t.step) * channels + t.channel);
            rows = r + 1;
        }
    }
    m.v[2 * N] = (float)rows;
    for (int k = 0; k < N; k++) {
        for (int r = 0; r < TOGETHER; r++) {
            m.v[k] += r < rows ? port_float(v[r].v[k]) : 0;
        }
        m.v[k] /= m.v[2 * N];
        for (int r = 0; r < TOGETHER; r++) {
            float d = port_float(v[r].v[k]) - m.v[k];
            m.v[N + k] += r < rows ? d * d : 0;
        }
    }
    return m;
}

struct norm {
    float *mean, *inverse, *scale, *shift, *slope;
    float *running_mean, *running_variance;
    const float *weight, *bias;
    float *dweight, *dbias;
    double momentum, eps;
};

/* Rows of one chunk that are in use. */
DEVICE_FN double rows_in(struct columns c, unsigned chunk, size_t rows)
{
    size_t begin = chunk * c.chunk, end = begin + c.chunk < rows ? begin + c.chunk : rows;
    return begin < end ? (double)(end - begin) : 0;
}

DEVICE_FN void store_statistics(const struct norm &b, size_t k, double mean, double squares,
                                double rows)
{
    double unbiased = rows > 1 ? squares / (rows - 1) : 0;
    float inverse = (float)(1 / sqrt(squares / rows + b.eps));
    b.mean[k] = (float)mean;
    b.inverse[k] = inverse;
    b.running_mean[k] =
        (float)((1 - b.momentum) * (double)b.running_mean[k] + b.momentum * (double)(float)mean);
    b.running_variance[k] =
        (float)((1 - b.momentum) * (double)b.running_variance[k] + b.momentum * unbiased);
    b.scale[k] = b.weight[k] * inverse;
    b.shift[k] = b.bias[k] - (float)mean * b.scale[k];
}

/* Joins chunks by the distance of their means from the first one's. */
template <typename T, int N>
KERNEL measure(struct norm b, struct cuda_parts parts, const T *x, const struct cuda_head *head,
               size_t area, struct columns c)
{
    SHARED double shared[2 * N * PORT_THREADS];
    size_t rows = (size_t)head->count * area;
    struct column t = column_of<N>(c, rows);
    measured<N> m = {};
    for (size_t i = t.first; i < t.last; i += TOGETHER * t.step) {
        measured<N> some = measure_some<T, N>(x, i, t, c.channels);
        measured_join<N>(m.v, some.v);
    }
    column_join<measured<N>::FLOATS>(t, m.v, (float *)shared, measured_join<N>);
    column_sums<2, N>(
        c, t, m.v, parts, shared,
        [&](double *all, const float *found, unsigned chunk) {
            double n = rows_in(c, chunk, rows);
            for (int k = 0; n > 0 && k < N; k++) {
                double d = (double)found[k] - (double)parts.sums[t.channel + k];
                all[k] += n * d;
                all[N + k] += (double)found[N + k] + n * d * d;
            }
        },
        [&](size_t channel, const double *all) {
            double n = (double)rows, shift = all[0] / n;
            store_statistics(b, channel, (double)parts.sums[channel] + shift,
                             all[1] - n * shift * shift, n);
        });
}

KERNEL use_running(struct norm b, size_t channels)
{
    size_t k = port_index();
    if (k < channels) {
        b.scale[k] = b.weight[k] * (float)(1 / sqrt((double)b.running_variance[k] + b.eps));
        b.shift[k] = b.bias[k] - b.running_mean[k] * b.scale[k];
    }
}

/* added: NULL, or a value to add before the relu. WHOLE: channels are a multiple of what a thread
 * takes at once. */
template <typename T, bool WHOLE>
KERNEL apply(T *y, const T *x, const T *added, struct norm b, bool relu, size_t n,
             unsigned channels)
{
    constexpr int N = port_pack<T>::N;
    size_t packs = n / N;
    for (size_t i = port_index(); i < packs; i += port_stride()) {
        port_some<T, N> v = ((const port_some<T, N> *)x)[i], z = {};
        unsigned c = (unsigned)(i * N % channels);
        port_some<float, N> scale = column_numbers<N, WHOLE>(b.scale, c, channels),
                            shift = column_numbers<N, WHOLE>(b.shift, c, channels);
        if (added) {
            z = ((const port_some<T, N> *)added)[i];
        }
        for (int k = 0; k < N; k++) {
            float r = scale.v[k] * port_float(v.v[k]) + shift.v[k];
            r = added ? r + port_float(z.v[k]) : r;
            v.v[k] = port_from<T>(relu ? port_relu(r) : r);
        }
        ((port_some<T, N> *)y)[i] = v;
    }
    for (size_t i = packs * N + port_index(); i < n; i += port_stride()) {
        float r = b.scale[i % channels] * port_float(x[i]) + b.shift[i % channels];
        r = added ? r + port_float(added[i]) : r;
        y[i] = port_from<T>(relu ? port_relu(r) : r);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

DEVICE_FN void store_gradients(const struct norm &b, size_t k, double sum, double products,
                               double rows)
{
    double inverse = (double)b.inverse[k], scale = (double)b.weight[k] * inverse;
    products *= inverse;
    double slope = -scale * inverse * products / rows;
    b.dbias[k] = (float)sum;
    b.dweight[k] = (float)products;
    b.scale[k] = (float)scale;
    b.slope[k] = (float)slope;
    b.shift[k] = (float)(-scale * sum / rows - slope * (double)b.mean[k]);
}

/* Sums of dy and of dy*(x - mean); dy is masked in place if a relu follows (y). */
template <typename T, int N>
KERNEL collect(struct norm b, struct cuda_parts parts, T *dy, const T *x, const T *y, bool relu,
               const struct cuda_head *head, size_t area, struct columns c)
{
    typedef port_some<T, N> pack;
    SHARED double shared[2 * N * PORT_THREADS];
    size_t rows = (size_t)head->count * area;
    struct column t = column_of<N>(c, rows);
    float sums[2 * N] = {}, mean[N];
    for (int k = 0; k < N; k++) {
        mean[k] = t.channel < c.channels ? b.mean[t.channel + k] : 0;
    }
    for (size_t i = t.first; i < t.last; i += t.step) {
        size_t at = i * c.channels + t.channel;
        pack g = *(const pack *)(dy + at), v = *(const pack *)(x + at);
        if (relu) {
            g = port_masked(g, *(const pack *)(y + at));
            *(pack *)(dy + at) = g;
        }
        port_add(sums, g);
        for (int k = 0; k < N; k++) {
            sums[N + k] += port_float(g.v[k]) * (port_float(v.v[k]) - mean[k]);
        }
    }
    column_sum<2 * N>(t, sums, (float *)shared);
    column_sums<2, N>(
        c, t, sums, parts, shared,
        [](double *all, const float *found, unsigned) {
            for (int k = 0; k < 2 * N; k++) {
                all[k] += (double)found[k];
            }
        },
        [&](size_t channel, const double *all) {
            store_gradients(b, channel, all[0], all[1], (double)rows);
        });
}

/* Rows of unused samples get zeros. */
template <typename T, bool WHOLE>
KERNEL apply_gradient(T *dx, const T *dy, const T *x, struct norm b, const struct cuda_head *head,
                      size_t count, size_t n, unsigned channels)
{
    constexpr int N = port_pack<T>::N;
    size_t used = (size_t)head->count * count, packs = n / N;
    for (size_t i = port_index(); i < packs; i += port_stride()) {
        port_some<T, N> v = ((const port_some<T, N> *)x)[i], g = ((const port_some<T, N> *)dy)[i];
        unsigned c = (unsigned)(i * N % channels);
        port_some<float, N> scale = column_numbers<N, WHOLE>(b.scale, c, channels),
                            slope = column_numbers<N, WHOLE>(b.slope, c, channels),
                            shift = column_numbers<N, WHOLE>(b.shift, c, channels);
        for (int k = 0; k < N; k++) {
            float r =
                scale.v[k] * port_float(g.v[k]) + (slope.v[k] * port_float(v.v[k]) + shift.v[k]);
            v.v[k] = port_from<T>(i * N + k < used ? r : 0);
        }
        ((port_some<T, N> *)dx)[i] = v;
    }
    for (size_t i = packs * N + port_index(); i < n; i += port_stride()) {
        unsigned c = (unsigned)(i % channels);
        float r = b.scale[c] * port_float(dy[i]) + (b.slope[c] * port_float(x[i]) + b.shift[c]);
        dx[i] = port_from<T>(i < used ? r : 0);
    }
}

/* ---- the operator ---------------------------------------------------------------------------- */

static size_t channels_of(const struct cuda_step *s)
{
    return (size_t)s->out->shape.dim[s->out->shape.rank - 1];
}

static int prepare(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct batch_norm *b = (struct batch_norm *)calloc(1, sizeof(*b));
    if (!b) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = b;
    size_t c = channels_of(s), rows = (size_t)p->head.batch * s->out->count / c;
    b->cut = columns_cut(p, rows, c, 0);
    columns_reserve(p, b->cut, 2);
    float **places[] = {&b->mean, &b->inverse, &b->scale, &b->shift, &b->slope};
    for (float **place : places) {
        TRY(cuda_reserve(&p->arena, place, c, false, e));
    }
    return 0;
}

static struct norm norm_of(const struct cuda_program *p, const struct cuda_step *s)
{
    const struct batch_norm *b = (const struct batch_norm *)s->state;
    const struct cuda_tensor *stats = &p->replica->stats.host[s->layer->first_stat];
    struct norm n = {};
    n.mean = b->mean;
    n.inverse = b->inverse;
    n.scale = b->scale;
    n.shift = b->shift;
    n.slope = b->slope;
    n.running_mean = p->stats + stats[0].at;
    n.running_variance = p->stats + stats[1].at;
    n.weight = cuda_param(p, s, 0);
    n.bias = cuda_param(p, s, 1);
    n.dweight = cuda_param_grad(p, s, 0);
    n.dbias = cuda_param_grad(p, s, 1);
    n.momentum = s->layer->rate;
    n.eps = s->layer->eps;
    return n;
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    const struct batch_norm *b = (const struct batch_norm *)s->state;
    cudaStream_t stream = p->dev->build;
    size_t c = channels_of(s), area = s->out->count / c, n = (size_t)p->head.batch * s->out->count;
    const void *added = s->n_in > 1 ? s->in[1]->data : NULL;
    struct norm norm = norm_of(p, s);
    cudaError_t code;
    if (training) {
        CUDA_PACKS(p, c, T, N,
                   code = LAUNCH((measure<T, N>), b->cut.tiles * b->cut.chunks,
                                 n * sizeof(T) + columns_bytes(b->cut, 2), stream, norm, p->parts,
                                 (const T *)s->in[0]->data, cuda_head(p), area, b->cut));
        TRY(cuda_check(code, "measure a batch", e));
    } else {
        TRY(cuda_check(LAUNCH(use_running, (c + PORT_THREADS - 1) / PORT_THREADS,
                              6 * c * sizeof(float), stream, norm, c),
                       "use running statistics", e));
    }
    CUDA_PACKS(
        p, c, T, N,
        return cuda_check(LAUNCH((apply<T, (N > 1)>), cuda_blocks(p->dev, n / port_pack<T>::N + 1),
                                 (added ? 3 : 2) * n * sizeof(T), stream, (T *)s->out->data,
                                 (const T *)s->in[0]->data, (const T *)added, norm, s->relu, n,
                                 (unsigned)c),
                          "normalise a batch", e));
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    const struct batch_norm *b = (const struct batch_norm *)s->state;
    cudaStream_t stream = p->dev->build;
    size_t c = channels_of(s), area = s->out->count / c, n = (size_t)p->head.batch * s->out->count;
    struct norm norm = norm_of(p, s);
    cudaError_t code;
    CUDA_PACKS(p, c, T, N,
               code = LAUNCH((collect<T, N>), b->cut.tiles * b->cut.chunks,
                             (s->relu ? 4 : 2) * n * sizeof(T) + columns_bytes(b->cut, 2), stream,
                             norm, p->parts, (T *)s->out->grad, (const T *)s->in[0]->data,
                             (const T *)s->out->data, s->relu, cuda_head(p), area, b->cut));
    TRY(cuda_check(code, "sum gradients of a batch", e));
    if (s->in_grad[1] &&
        *s->in_grad[1] != s->out->grad) { /* what was added has the output's gradient, now masked */
        TRY(pointwise_copy(p, *s->in_grad[1], s->out->grad, n, e));
    }
    if (!s->in_grad[0]) {
        return 0;
    }
    CUDA_PACKS(p, c, T, N,
               return cuda_check(LAUNCH((apply_gradient<T, (N > 1)>),
                                        cuda_blocks(p->dev, n / port_pack<T>::N + 1),
                                        3 * n * sizeof(T), stream, (T *)*s->in_grad[0],
                                        (const T *)s->out->grad, (const T *)s->in[0]->data, norm,
                                        cuda_head(p), s->out->count, n, (unsigned)c),
                                 "run the gradient of a batch norm", e));
}

static void release(struct cuda_step *s)
{
    free(s->state);
    s->state = NULL;
}

const struct cuda_op cuda_batch_norm = {
    .name = "batch norm",
    .takes_relu = true,
    .takes_add = true,
    .passes = 1u << 1,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};

/* Local response normalisation across channels, twin of cpu/lrn.c, which has the formulas. x, y, s:
 * [batch][h][w][c]; s, the sum under the exponent, is kept from the forward pass. One thread per
 * element; neighbours of a warp share what they read.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

struct lrn {
    float *s;
};

struct terms {
    float k, scale, beta;
    int window, channels;
};

/* s^-beta; 3/4, the usual exponent, without logarithms. */
DEVICE_FN float power(float s, float beta)
{
    if (beta == 0.75f) {
        float root = sqrtf(s);
        return 1.0f / (root * sqrtf(root));
    }
    return powf(s, -beta);
}

template <typename T> KERNEL respond(T *y, float *s, const T *x, struct terms t, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        int channel = (int)(i % (size_t)t.channels);
        int first = channel - t.window / 2, last = channel + (t.window - 1) / 2;
        const T *pixel = x + (i - channel);
        float sum = 0;
        for (int c = first < 0 ? 0 : first; c <= last && c < t.channels; c++) {
            sum += port_float(pixel[c]) * port_float(pixel[c]);
        }
        s[i] = t.k + t.scale * sum;
        y[i] = port_from<T>(port_float(x[i]) * power(s[i], t.beta));
    }
}

/* The windows that contain a channel reach the other way: (window-1)/2 down, window/2 up. */
template <typename T>
KERNEL respond_gradient(T *dx, const T *dy, const T *x, const T *y, const float *s, struct terms t,
                        size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        int channel = (int)(i % (size_t)t.channels);
        int first = channel - (t.window - 1) / 2, last = channel + t.window / 2;
        size_t pixel = i - channel;
        float sum = 0;
        for (int c = first < 0 ? 0 : first; c <= last && c < t.channels; c++) {
            sum += port_float(dy[pixel + c]) * port_float(y[pixel + c]) / s[pixel + c];
        }
        float own = port_float(dy[i]) * power(s[i], t.beta);
        dx[i] = port_from<T>(own - 2.0f * t.scale * t.beta * port_float(x[i]) * sum);
    }
}

static struct terms terms_of(const struct cuda_step *s)
{
    const struct layer *l = s->layer;
    return {(float)l->k, (float)(l->alpha / l->window), (float)l->beta, l->window,
            s->out->shape.dim[2]};
}

static int prepare(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct lrn *l = (struct lrn *)calloc(1, sizeof(*l));
    if (!l) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = l;
    return cuda_reserve(&p->arena, &l->s, (size_t)p->head.batch * s->out->count, true, e);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    float *kept = ((struct lrn *)s->state)->s;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH(respond<T>, cuda_blocks(p->dev, n),
                                       n * (2 * sizeof(T) + sizeof(float)), p->dev->build,
                                       (T *)s->out->data, kept, (const T *)s->in[0]->data,
                                       terms_of(s), n),
                                "normalise responses", e));
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    const float *kept = ((struct lrn *)s->state)->s;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH(respond_gradient<T>, cuda_blocks(p->dev, n),
                                       n * (4 * sizeof(T) + sizeof(float)), p->dev->build,
                                       (T *)*s->in_grad[0], (const T *)s->out->grad,
                                       (const T *)s->in[0]->data, (const T *)s->out->data, kept,
                                       terms_of(s), n),
                                "run the gradient of normalised responses", e));
}

static void release(struct cuda_step *s)
{
    free(s->state);
    s->state = NULL;
}

const struct cuda_op cuda_lrn = {
    .name = "local response normalisation",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};

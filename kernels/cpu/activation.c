/* Activations that are never a part of the layer before them: leaky relu, tanh, sigmoid. Their gradient is worked out from the output,
 * so nothing is kept.
 */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

enum { PARALLEL_FROM = 8192 };

typedef void loop_fn(float *out, const float *a, const float *b, float slope, size_t n);

CPU_CLONES static void leaky_loop(float *restrict y, const float *restrict x, const float *unused, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] > 0 ? x[i] : slope * x[i];
    }
}

CPU_CLONES static void leaky_grad_loop(float *restrict dx, const float *dy, const float *restrict y, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = y[i] > 0 ? dy[i] : slope * dy[i];
    }
}

static void tanh_loop(float *restrict y, const float *restrict x, const float *unused, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = tanhf(x[i]);
    }
}

CPU_CLONES static void tanh_grad_loop(float *restrict dx, const float *dy, const float *restrict y, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
    }
}

static void sigmoid_loop(float *restrict y, const float *restrict x, const float *unused, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = 1.0f / (1.0f + expf(-x[i]));
    }
}

CPU_CLONES static void sigmoid_grad_loop(float *restrict dx, const float *dy, const float *restrict y, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
    }
}

static void run(loop_fn *loop, float *out, const float *a, const float *b, const struct cpu_program *p, const struct cpu_step *s)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    float slope = (float)s->layer->rate;
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        loop(out + first, a + first, b + first, slope, last - first);
    }
}

#define ACTIVATION(kind, title)                                                                                          \
    static int kind##_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)      \
    {                                                                                                                    \
        run(kind##_loop, s->out->data, s->in[0]->data, s->in[0]->data, p, s);                                            \
        return 0;                                                                                                        \
    }                                                                                                                    \
    static int kind##_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)     \
    {                                                                                                                    \
        run(kind##_grad_loop, *s->in_grad[0], s->out->grad, s->out->data, p, s);                                         \
        return 0;                                                                                                        \
    }                                                                                                                    \
    const struct cpu_op cpu_##kind = {.name = title, .keeps_shape = true, .forward = kind##_forward,                     \
                                      .backward = kind##_backward, .work = work};

static double work(const struct cpu_step *s)
{
    return 20.0 * (double)s->out->count;
}

ACTIVATION(leaky, "leaky relu")
ACTIVATION(tanh, "tanh")
ACTIVATION(sigmoid, "sigmoid")

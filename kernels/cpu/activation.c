/* Activations that never become a part of the layer before them: leaky relu, tanh, sigmoid. Their
 * gradient is computed from the output, so nothing else is kept.
 */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

enum { PARALLEL_FROM = 8192 };

typedef void loop_fn(void *out, const void *a, const void *b, bool bf16, float slope, size_t first,
                     size_t last);

CPU_CLONES static void leaky_loop(void *restrict y, const void *restrict x, const void *unused,
                                  bool bf16, float slope, size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float v = GET(x, i);
            PUT(y, i, v > 0 ? v : slope * v);
        }
    });
}

CPU_CLONES static void leaky_grad_loop(void *restrict dx, const void *restrict dy,
                                       const void *restrict y, bool bf16, float slope, size_t first,
                                       size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float g = GET(dy, i);
            PUT(dx, i, GET(y, i) > 0 ? g : slope * g);
        }
    });
}

static void tanh_loop(void *restrict y, const void *restrict x, const void *unused, bool bf16,
                      float slope, size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            PUT(y, i, tanhf(GET(x, i)));
        }
    });
}

CPU_CLONES static void tanh_grad_loop(void *restrict dx, const void *restrict dy,
                                      const void *restrict y, bool bf16, float slope, size_t first,
                                      size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float v = GET(y, i);
            PUT(dx, i, GET(dy, i) * (1.0f - v * v));
        }
    });
}

static void sigmoid_loop(void *restrict y, const void *restrict x, const void *unused, bool bf16,
                         float slope, size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            PUT(y, i, 1.0f / (1.0f + expf(-GET(x, i))));
        }
    });
}

CPU_CLONES static void sigmoid_grad_loop(void *restrict dx, const void *restrict dy,
                                         const void *restrict y, bool bf16, float slope,
                                         size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float v = GET(y, i);
            PUT(dx, i, GET(dy, i) * (v * (1.0f - v)));
        }
    });
}

static void run(loop_fn *loop, void *out, const void *a, const void *b, const struct cpu_program *p,
                const struct cpu_step *s)
{
    size_t n = (size_t)p->samples * s->out->count;
    float slope = (float)s->layer->rate;
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        loop(out, a, b, p->bf16, slope, first, last);
    }
}

#define ACTIVATION(kind, title)                                                  \
    static int kind##_forward(struct cpu_program *p, struct cpu_step *s,         \
                              const struct dev_input *in, struct err *e)         \
    {                                                                            \
        run(kind##_loop, s->out->data, s->in[0]->data, s->in[0]->data, p, s);    \
        return 0;                                                                \
    }                                                                            \
    static int kind##_backward(struct cpu_program *p, struct cpu_step *s,        \
                               const struct dev_input *in, struct err *e)        \
    {                                                                            \
        run(kind##_grad_loop, *s->in_grad[0], s->out->grad, s->out->data, p, s); \
        return 0;                                                                \
    }                                                                            \
    const struct cpu_op cpu_##kind = {.name = title,                             \
                                      .by_tiles = true,                          \
                                      .keeps_shape = true,                       \
                                      .backward_reads = CPU_READS_OUT,           \
                                      .forward = kind##_forward,                 \
                                      .backward = kind##_backward};

ACTIVATION(leaky, "leaky relu")
ACTIVATION(tanh, "tanh")
ACTIVATION(sigmoid, "sigmoid")

/* The mean of each channel over the whole image: [h][w][c] to [c]. */
#include "kernels/cpu/cpu.h"

enum { PARALLEL_FROM = 16384 };

CPU_CLONES static void mean(float *restrict y, const float *restrict x, size_t area, size_t c)
{
    for (size_t k = 0; k < c; k++) {
        y[k] = 0;
    }
    for (size_t i = 0; i < area; i++) {
        for (size_t k = 0; k < c; k++) {
            y[k] += x[i * c + k];
        }
    }
    for (size_t k = 0; k < c; k++) {
        y[k] /= (float)area;
    }
}

CPU_CLONES static void spread(float *restrict dx, const float *restrict dy, size_t area, size_t c)
{
    float share = 1.0f / (float)area;
    for (size_t i = 0; i < area; i++) {
        for (size_t k = 0; k < c; k++) {
            dx[i * c + k] = dy[k] * share;
        }
    }
}

static int forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t n = s->in[0]->count, c = s->out->count;
#pragma omp parallel for if (n * (size_t)p->head.batch > PARALLEL_FROM)
    for (size_t i = 0; i < (size_t)p->head.batch; i++) {
        mean(s->out->data + i * c, s->in[0]->data + i * n, n / c, c);
    }
    return 0;
}

static int backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t n = s->in[0]->count, c = s->out->count;
    float *to = *s->in_grad[0];
#pragma omp parallel for if (n * (size_t)p->head.batch > PARALLEL_FROM)
    for (size_t i = 0; i < (size_t)p->head.batch; i++) {
        spread(to + i * n, s->out->grad + i * c, n / c, c);
    }
    return 0;
}

static double work(const struct cpu_step *s)
{
    return 4.0 * (double)s->in[0]->count;
}

const struct cpu_op cpu_global_pool = {
    .name = "global average pooling",
    .forward = forward,
    .backward = backward,
    .work = work,
};

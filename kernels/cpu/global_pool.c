/* The mean of each channel over the whole image: [h][w][c] to [c]. */
#include "kernels/cpu/cpu.h"

enum { PARALLEL_FROM = 16384, STRIP = 64 };

/* The mean over the pixels of `c` channels beginning at element `from`; at most STRIP of them, of
 * `all`. */
CPU_CLONES static void mean(void *restrict y, size_t to, const void *restrict x, size_t from,
                            bool bf16, size_t area, size_t c, size_t all)
{
    float sum[STRIP] = {0};
    ELEMENTS(bf16, {
        for (size_t i = 0; i < area; i++) {
            for (size_t k = 0; k < c; k++) {
                sum[k] += GET(x, from + i * all + k);
            }
        }
    });
    ELEMENTS(bf16, {
        for (size_t k = 0; k < c; k++) {
            PUT(y, to + k, sum[k] / (float)area);
        }
    });
}

CPU_CLONES static void spread(void *restrict dx, size_t to, const void *restrict dy, size_t from,
                              bool bf16, size_t area, size_t c)
{
    float share = 1.0f / (float)area;
    ELEMENTS(bf16, {
        for (size_t i = 0; i < area; i++) {
            for (size_t k = 0; k < c; k++) {
                PUT(dx, to + i * c + k, GET(dy, from + k) * share);
            }
        }
    });
}

static int forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   struct err *e)
{
    size_t n = s->in[0]->count, c = s->out->count;
#pragma omp parallel for if (n * (size_t)p->batch > PARALLEL_FROM)
    for (size_t i = 0; i < (size_t)p->batch; i++) {
        for (size_t k = 0; k < c; k += STRIP) {
            mean(s->out->data, i * c + k, s->in[0]->data, i * n + k, p->bf16, n / c,
                 c - k < STRIP ? c - k : STRIP, c);
        }
    }
    return 0;
}

static int backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                    struct err *e)
{
    size_t n = s->in[0]->count, c = s->out->count;
#pragma omp parallel for if (n * (size_t)p->batch > PARALLEL_FROM)
    for (size_t i = 0; i < (size_t)p->batch; i++) {
        spread(*s->in_grad[0], i * n, s->out->grad, i * c, p->bf16, n / c, c);
    }
    return 0;
}

const struct cpu_op cpu_global_pool = {
    .name = "global average pooling",
    .forward = forward,
    .backward = backward,
};

/* Layers with several inputs: add and concat. Both only move numbers, forward and backward. Concat
 * joins channels, which are innermost in memory, so its inputs interleave pixel by pixel.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/steps.h"

enum { PARALLEL_FROM = 16384 };

/* ---- add ------------------------------------------------------------------------------------- */

/* y may be a. */
CPU_CLONES static void sum_loop(void *y, const void *a, const void *b, bool bf16, bool relu,
                                size_t first, size_t last)
{
    if (relu) {
        ELEMENTS(bf16, {
            for (size_t i = first; i < last; i++) {
                float x = GET(a, i) + GET(b, i);
                PUT(y, i, x <= 0 ? 0 : x);
            }
        });
        return;
    }
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            PUT(y, i, GET(a, i) + GET(b, i));
        }
    });
}

static int add_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                       struct err *e)
{
    size_t n = (size_t)p->samples * s->out->count;
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        void *y = s->out->data;
        sum_loop(y, s->in[0]->data, s->in[1]->data, p->bf16, s->relu && s->n_in == 2, first, last);
        for (int k = 2; k < s->n_in; k++) {
            sum_loop(y, y, s->in[k]->data, p->bf16, s->relu && k == s->n_in - 1, first, last);
        }
    }
    return 0;
}

static int add_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                        struct err *e)
{
    size_t n = (size_t)p->samples * s->out->count;
    if (s->relu) {
        pointwise_relu_mask(p, s->out->grad, s->out->data, n);
    }
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        for (int k = 0; k < s->n_in; k++) {
            if (s->in_grad[k]) {
                memcpy(element_at(*s->in_grad[k], first, p->bf16),
                       element_at(s->out->grad, first, p->bf16),
                       (last - first) * element_size(p->bf16));
            }
        }
    }
    return 0;
}

const struct cpu_op cpu_add = {
    .name = "add",
    .by_tiles = true,
    .takes_relu = true,
    .backward_reads = CPU_READS_RELU,
    .forward = add_forward,
    .backward = add_backward,
};

/* ---- concat ---------------------------------------------------------------------------------- */

static int concat_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                          struct err *e)
{
    size_t all = steps_joined(&s->out->shape, &s->out->shape),
           rows = (size_t)p->samples * s->out->count / all, at = 0;
    for (int k = 0; k < s->n_in; k++) {
        size_t c = steps_joined(&s->out->shape, &s->in[k]->shape);
#pragma omp parallel for if (rows * c > PARALLEL_FROM)
        for (size_t i = 0; i < rows; i++) {
            memcpy(element_at(s->out->data, i * all + at, p->bf16),
                   element_at(s->in[k]->data, i * c, p->bf16), c * element_size(p->bf16));
        }
        at += c;
    }
    return 0;
}

static int concat_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                           struct err *e)
{
    size_t all = steps_joined(&s->out->shape, &s->out->shape),
           rows = (size_t)p->samples * s->out->count / all, at = 0;
    for (int k = 0; k < s->n_in; k++) {
        size_t c = steps_joined(&s->out->shape, &s->in[k]->shape);
        void *to = s->in_grad[k] ? *s->in_grad[k] : NULL;
#pragma omp parallel for if (rows * c > PARALLEL_FROM)
        for (size_t i = 0; i < (to ? rows : 0); i++) {
            memcpy(element_at(to, i * c, p->bf16), element_at(s->out->grad, i * all + at, p->bf16),
                   c * element_size(p->bf16));
        }
        at += c;
    }
    return 0;
}

const struct cpu_op cpu_concat = {
    .name = "concat",
    .by_tiles = true,
    .forward = concat_forward,
    .backward = concat_backward,
};

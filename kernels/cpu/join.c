/* Layers with several inputs: add and concat. Both only move numbers, forward and backward.
 *
 * What a newcomer would get wrong: concat joins channels, which stand innermost in memory, so its inputs interleave pixel by pixel.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

enum { PARALLEL_FROM = 16384 };

/* ---- add ------------------------------------------------------------------------------------------------------- */

CPU_CLONES static void sum_loop(float *y, const float *a, const float *b, bool relu, size_t n)
{
    if (relu) {
        for (size_t i = 0; i < n; i++) {
            float x = a[i] + b[i];
            y[i] = x > 0 ? x : 0;
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}

static int add_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        float *y = s->out->data + first;
        sum_loop(y, s->in[0]->data + first, s->in[1]->data + first, s->relu && s->n_in == 2, last - first);
        for (int k = 2; k < s->n_in; k++) {
            sum_loop(y, y, s->in[k]->data + first, s->relu && k == s->n_in - 1, last - first);
        }
    }
    return 0;
}

static int add_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    if (s->relu) {
        pointwise_relu_mask(s->out->grad, s->out->data, n);
    }
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        for (int k = 0; k < s->n_in; k++) {
            if (s->in_grad[k]) {
                memcpy(*s->in_grad[k] + first, s->out->grad + first, (last - first) * sizeof(float));
            }
        }
    }
    return 0;
}

static double work(const struct cpu_step *s)
{
    return 4.0 * (double)s->out->count * s->n_in;
}

const struct cpu_op cpu_add = {
    .name = "add",
    .takes_relu = true,
    .forward = add_forward,
    .backward = add_backward,
    .work = work,
};

/* ---- concat ------------------------------------------------------------------------------------------------------ */

static size_t channels(const struct shape *s)
{
    return (size_t)s->dim[s->rank - 1];
}

static int concat_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t all = channels(&s->out->shape), rows = (size_t)p->head.batch * s->out->count / all, at = 0;
    for (int k = 0; k < s->n_in; k++) {
        size_t c = channels(&s->in[k]->shape);
#pragma omp parallel for if (rows * c > PARALLEL_FROM)
        for (size_t i = 0; i < rows; i++) {
            memcpy(s->out->data + i * all + at, s->in[k]->data + i * c, c * sizeof(float));
        }
        at += c;
    }
    return 0;
}

static int concat_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t all = channels(&s->out->shape), rows = (size_t)p->head.batch * s->out->count / all, at = 0;
    for (int k = 0; k < s->n_in; k++) {
        size_t c = channels(&s->in[k]->shape);
        float *to = s->in_grad[k] ? *s->in_grad[k] : NULL;
#pragma omp parallel for if (rows * c > PARALLEL_FROM)
        for (size_t i = 0; i < (to ? rows : 0); i++) {
            memcpy(to + i * c, s->out->grad + i * all + at, c * sizeof(float));
        }
        at += c;
    }
    return 0;
}

const struct cpu_op cpu_concat = {
    .name = "concat",
    .forward = concat_forward,
    .backward = concat_backward,
    .work = work,
};

/* Pointwise operators, and flatten, which moves nothing where what follows can read an image as it stands.
 *
 * Loops that matter stand in functions of their own beside the parallel region: only a whole function can be compiled for
 * several instruction sets (CPU_CLONES), not a region that the compiler cuts out of one.
 */
#include "kernels/cpu/pointwise.h"

#include <omp.h>

#include "kernels/cpu/cpu.h"

enum { PARALLEL_FROM = 16384 };

void pointwise_share(size_t n, size_t *first, size_t *last)
{
    size_t threads = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();
    size_t share = ((n + threads - 1) / threads + 15) / 16 * 16;
    *first = me * share < n ? me * share : n;
    *last = *first + share < n ? *first + share : n;
}

CPU_CLONES static void relu_loop(float *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] > 0 ? x[i] : 0;
    }
}

CPU_CLONES static void mask_loop(float *restrict out, const float *grad, const float *restrict data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = data[i] > 0 ? grad[i] : 0;
    }
}

CPU_CLONES static void mask_in_place_loop(float *restrict grad, const float *restrict data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grad[i] = data[i] > 0 ? grad[i] : 0;
    }
}

CPU_CLONES static void add_loop(float *restrict a, const float *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] += b[i];
    }
}

void pointwise_relu_mask(float *grad, const float *data, size_t n)
{
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        mask_in_place_loop(grad + first, data + first, last - first);
    }
}

void pointwise_add(float *a, const float *b, size_t n)
{
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        add_loop(a + first, b + first, last - first);
    }
}

static double work(const struct cpu_step *s)
{
    return 4.0 * (double)s->out->count;
}

/* ---- relu, where it could not become a part of the layer before it ---------------------------------------- */

static int relu_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        relu_loop(s->out->data + first, s->in[0]->data + first, last - first);
    }
    return 0;
}

static int relu_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    float *to = *s->in_grad[0];
#pragma omp parallel if (n > PARALLEL_FROM)
    {
        size_t first, last;
        pointwise_share(n, &first, &last);
        mask_loop(to + first, s->out->grad + first, s->out->data + first, last - first);
    }
    return 0;
}

const struct cpu_op cpu_relu = {
    .name = "relu",
    .keeps_shape = true,
    .forward = relu_forward,
    .backward = relu_backward,
    .work = work,
};

/* ---- flatten, where the order of the elements is seen -------------------------------------------------------- */

/* to[j][i] = from[i][j], in strips of a cache line. */
CPU_CLONES static void transpose(float *restrict to, const float *restrict from, size_t rows, size_t columns)
{
    for (size_t first = 0; first < rows; first += 16) {
        size_t last = first + 16 < rows ? first + 16 : rows;
        for (size_t j = 0; j < columns; j++) {
            for (size_t i = first; i < last; i++) {
                to[j * rows + i] = from[i * columns + j];
            }
        }
    }
}

void pointwise_flatten(float *to, const float *from, const struct shape *image, int batch, bool to_vector)
{
    size_t area = (size_t)image->dim[0] * (size_t)image->dim[1], c = (size_t)image->dim[2], n = area * c;
#pragma omp parallel for if (n * (size_t)batch > PARALLEL_FROM)
    for (int i = 0; i < batch; i++) {
        transpose(to + (size_t)i * n, from + (size_t)i * n, to_vector ? area : c, to_vector ? c : area);
    }
}

static int flatten_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    pointwise_flatten(s->out->data, s->in[0]->data, &s->in[0]->shape, p->head.batch, true);
    return 0;
}

static int flatten_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    pointwise_flatten(*s->in_grad[0], s->out->grad, &s->in[0]->shape, p->head.batch, false);
    return 0;
}

const struct cpu_op cpu_flatten = {
    .name = "flatten",
    .forward = flatten_forward,
    .backward = flatten_backward,
    .work = work,
};

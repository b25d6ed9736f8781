/* Pointwise operators, and flatten, which moves nothing if the next step can read the stored image.
 *
 * Hot loops are functions of their own, outside the parallel region: only a whole function can be
 * compiled for several instruction sets (CPU_CLONES), not the region that the compiler makes of a
 * part of one.
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

/* NaN stays NaN. */
CPU_CLONES static void relu_loop(void *restrict y, const void *restrict x, bool bf16, size_t first,
                                 size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float v = GET(x, i);
            PUT(y, i, v <= 0 ? 0 : v);
        }
    });
}

CPU_CLONES static void mask_loop(void *restrict out, const void *restrict grad,
                                 const void *restrict data, bool bf16, size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float g = GET(grad, i);
            PUT(out, i, GET(data, i) <= 0 ? 0 : g);
        }
    });
}

CPU_CLONES static void mask_in_place_loop(void *restrict grad, const void *restrict data, bool bf16,
                                          size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            float g = GET(grad, i);
            PUT(grad, i, GET(data, i) <= 0 ? 0 : g);
        }
    });
}

CPU_CLONES static void add_loop(void *restrict a, const void *restrict b, bool bf16, size_t first,
                                size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            PUT(a, i, GET(a, i) + GET(b, i));
        }
    });
}

CPU_CLONES static void from_fp32_loop(void *restrict to, const float *restrict from, bool bf16,
                                      size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            PUT(to, i, from[i]);
        }
    });
}

CPU_CLONES static void to_fp32_loop(float *restrict to, const void *restrict from, bool bf16,
                                    size_t first, size_t last)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < last; i++) {
            to[i] = GET(from, i);
        }
    });
}

/* Runs a loop over n elements on all threads; `...` are its other arguments, which come first.
 */
#define SHARED(n, loop, ...)                                  \
    do {                                                      \
        size_t shared_n = n;                                  \
        _Pragma("omp parallel if (shared_n > PARALLEL_FROM)") \
        {                                                     \
            size_t first, last;                               \
            pointwise_share(shared_n, &first, &last);         \
            loop(__VA_ARGS__, first, last);                   \
        }                                                     \
    } while (0)

void pointwise_relu_mask(const struct cpu_program *p, void *grad, const void *data, size_t n)
{
    SHARED(n, mask_in_place_loop, grad, data, p->bf16);
}

void pointwise_add(const struct cpu_program *p, void *a, const void *b, size_t n)
{
    SHARED(n, add_loop, a, b, p->bf16);
}

void pointwise_from_fp32(const struct cpu_program *p, void *to, const float *from, size_t n)
{
    SHARED(n, from_fp32_loop, to, from, p->bf16);
}

void pointwise_to_fp32(const struct cpu_program *p, float *to, const void *from, size_t n)
{
    SHARED(n, to_fp32_loop, to, from, p->bf16);
}

/* ---- relu, where it could not become a part of the layer before it --------------------------- */

static int relu_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                        struct err *e)
{
    SHARED((size_t)p->samples * s->out->count, relu_loop, s->out->data, s->in[0]->data, p->bf16);
    return 0;
}

static int relu_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                         struct err *e)
{
    SHARED((size_t)p->samples * s->out->count, mask_loop, *s->in_grad[0], s->out->grad,
           s->out->data, p->bf16);
    return 0;
}

const struct cpu_op cpu_relu = {
    .name = "relu",
    .by_tiles = true,
    .keeps_shape = true,
    .backward_reads = CPU_READS_OUT,
    .forward = relu_forward,
    .backward = relu_backward,
};

/* ---- flatten, where the order of the elements is seen ---------------------------------------- */

/* to[j][i] = from[i][j], in strips of a cache line of floats; both begin at element `at`. */
CPU_CLONES static void transpose(void *restrict to, const void *restrict from, bool bf16, size_t at,
                                 size_t rows, size_t columns)
{
    ELEMENTS(bf16, {
        for (size_t first = 0; first < rows; first += 16) {
            size_t last = first + 16 < rows ? first + 16 : rows;
            for (size_t j = 0; j < columns; j++) {
                for (size_t i = first; i < last; i++) {
                    COPY(to, at + j * rows + i, from, at + i * columns + j);
                }
            }
        }
    });
}

void pointwise_flatten(const struct cpu_program *p, void *to, const void *from,
                       const struct shape *image, bool to_vector)
{
    size_t area = (size_t)image->dim[0] * (size_t)image->dim[1], c = (size_t)image->dim[2],
           n = area * c;
#pragma omp parallel for if (n * (size_t)p->samples > PARALLEL_FROM)
    for (int i = 0; i < p->samples; i++) {
        transpose(to, from, p->bf16, (size_t)i * n, to_vector ? area : c, to_vector ? c : area);
    }
}

static int flatten_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                           struct err *e)
{
    pointwise_flatten(p, s->out->data, s->in[0]->data, &s->in[0]->shape, true);
    return 0;
}

static int flatten_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                            struct err *e)
{
    pointwise_flatten(p, *s->in_grad[0], s->out->grad, &s->in[0]->shape, false);
    return 0;
}

const struct cpu_op cpu_flatten = {
    .name = "flatten",
    .forward = flatten_forward,
    .backward = flatten_backward,
};

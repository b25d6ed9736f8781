/* Operations on each element of a program's activations: relu, the sums that graphs need, and
 * conversions between fp32 and the program's precision. */
#ifndef KERNELS_CPU_POINTWISE_H
#define KERNELS_CPU_POINTWISE_H

#include <stddef.h>

#include "kernels/cpu/cpu.h"

/* grad = 0 where data (a relu's output) is 0. */
void pointwise_relu_mask(const struct cpu_program *p, void *grad, const void *data, size_t n);
/* a += b */
void pointwise_add(const struct cpu_program *p, void *a, const void *b, size_t n);
/* Floats to elements, and back. */
void pointwise_from_fp32(const struct cpu_program *p, void *to, const float *from, size_t n);
void pointwise_to_fp32(const struct cpu_program *p, float *to, const void *from, size_t n);
/* Reorders a minibatch of images between row, column, channel (as stored) and vectors in the order
 * channel, row, column. */
void pointwise_flatten(const struct cpu_program *p, void *to, const void *from,
                       const struct shape *image, bool to_vector);
/* The calling thread's share [*first, *last) of n elements inside `omp parallel`, in whole cache
 * lines. */
void pointwise_share(size_t n, size_t *first, size_t *last);

#endif

/* Element by element over whole activations: relu, and the sums that graphs need. */
#ifndef KERNELS_CPU_POINTWISE_H
#define KERNELS_CPU_POINTWISE_H

#include <stddef.h>

#include "job/network.h"

/* grad = 0 where data (a relu's output) is not above 0. */
void pointwise_relu_mask(float *grad, const float *data, size_t n);
/* a += b */
void pointwise_add(float *a, const float *b, size_t n);
/* A minibatch of images, stored row, column, channel, to vectors that count channel, row, column; or back. */
void pointwise_flatten(float *to, const float *from, const struct shape *image, int batch, bool to_vector);
/* The calling thread's share [*first, *last) of n elements inside `omp parallel`, in whole cache lines. */
void pointwise_share(size_t n, size_t *first, size_t *last);

#endif

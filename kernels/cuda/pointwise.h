/* Operations on each element of activations, and sums over columns. Operators put them on the build
 * stream, or on another one that they name. Twin of cpu/pointwise.h. Numbers have the program's
 * precision. */
#ifndef KERNELS_CUDA_POINTWISE_H
#define KERNELS_CUDA_POINTWISE_H

#include "kernels/cuda/cuda.h"

/* grad = 0 where data (a relu's output) is not positive; n elements. */
int pointwise_relu_mask(struct cuda_program *p, void *grad, const void *data, size_t n,
                        struct err *e);
/* a += b */
int pointwise_add(struct cuda_program *p, void *a, const void *b, size_t n, struct err *e);
int pointwise_copy(struct cuda_program *p, void *to, const void *from, size_t n, struct err *e);
/* Reorders a minibatch of images between row, column, channel (as stored) and vectors in the order
 * channel, row, column. */
int pointwise_flatten(struct cuda_program *p, void *to, const void *from, const struct shape *image,
                      bool to_vector, struct err *e);
/* floats to bf16 and back */
int pointwise_round(struct cuda_program *p, struct bf16 *to, const float *from, size_t n,
                    struct err *e);
int pointwise_widen(struct cuda_program *p, float *to, const struct bf16 *from, size_t n,
                    cudaStream_t stream, struct err *e);
/* y[rows][channels] += bias, then relu if asked; bias may be NULL. */
int pointwise_bias(struct cuda_program *p, void *y, const float *bias, bool relu, size_t rows,
                   size_t channels, struct err *e);
/* The backward pass of a step with weights. It masks the gradient of its output in place, if its
 * relu is still to be applied (pointwise_masks), and sums it over rows into the gradient of its
 * bias, if it has one. pointwise_reserve_bias reserves memory for that sum. The mask goes on the
 * build stream, before the first reader of that gradient. */
bool pointwise_masks(const struct cuda_step *s);
int pointwise_bias_backward(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream,
                            struct err *e);
void pointwise_reserve_bias(struct cuda_program *p, const struct cuda_step *s);

#endif

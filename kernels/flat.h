/* Loops over flat blocks of floats in main memory, for work between two computations: sums of
 * gradients, weights, steps without an optimizer, samples. Every element is computed by itself in
 * fp32, so no result depends on the machine's instructions. Blocks must not overlap, unless a
 * comment allows them to be the same.
 */
#ifndef KERNELS_FLAT_H
#define KERNELS_FLAT_H

#include <stddef.h>
#include <stdint.h>

/* sum[i] += other[i] */
void flat_add(float *sum, const float *other, size_t n);
/* w[i] -= d[i] */
void flat_subtract(float *w, const float *d, size_t n);
/* to[i] = share * from[i]; both may be the same block. */
void flat_scale(float *to, const float *from, float share, size_t n);
/* sum[i] = share * from[i] + other[i], each rounded: the bits of flat_scale and flat_add. */
void flat_scale_add(float *sum, const float *from, float share, const float *other, size_t n);

/* to[i] = table[from[i]]: samples of bytes as floats. */
void flat_look_up(float *to, const uint8_t *from, const float table[256], size_t n);

struct flat_step {
    float scale,
        decay; /* of the gradient, of the weight where decays[i] is 1: u = scale*g + decay*x */
    float rate, weight; /* x -= rate*u; sum += weight*u */
};
/* A step of plain SGD that also sums up its updates (hpsgd). */
void flat_descend(float *x, float *sum, const float *g, const uint8_t *decays,
                  const struct flat_step *step, size_t n);
/* The length of a - b, summed in double over FLAT_LANES lanes (element i belongs to lane i modulo
 * FLAT_LANES), which are added up in order. */
enum { FLAT_LANES = 8 };
double flat_distance(const float *a, const float *b, size_t n);
/* The length of a, summed the same way. */
double flat_length(const float *a, size_t n);
/* The largest element, or 0 if none is positive; NaN elements do not count. */
float flat_largest(const float *a, size_t n);

#endif

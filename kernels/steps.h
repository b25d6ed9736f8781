/* From layers to steps, in as far as all devices do the same: which layers become part of another
 * step, and where buckets are cut. A device has its own kind of steps, values and operators
 * (cpu/graph.c, cuda/graph.cu) and asks here. So does the simulator, which has no device in timing
 * runs (simulator/timing.c).
 */
#ifndef KERNELS_STEPS_H
#define KERNELS_STEPS_H

#include "kernels/device.h"

/* The device's answer: is an output of this layer type stored as its first input is, whatever the
 * layer's shape says? */
typedef bool steps_keeps_shape_fn(int layer_type);

/* Counts inputs of other layers that read this layer's output. */
int steps_readers(const struct network *net, int layer);
/* Can a flatten layer whose input is stored in this shape do without a step? It moves nothing if
 * the image has one channel or one pixel, or if every reader can read the stored image in place of
 * the vector. */
bool steps_flatten_is_none(const struct network *net, int layer, const struct shape *stored,
                           steps_keeps_shape_fn *keeps_shape);

/* How much an input adds to the innermost axis of a concat: its whole length if vectors are joined,
 * which may still be stored as the images that they were flattened from. */
static inline size_t steps_joined(const struct shape *whole, const struct shape *input)
{
    return whole->rank == 1 ? shape_count(input) : (size_t)input->dim[2];
}

/* Cuts the flat block into buckets of at least bucket_bytes, in the order of the backward pass;
 * returns how many. layer: a bucket is complete after this layer's backward pass; or NULL. Both
 * arrays have room for every layer. */
int steps_cut(const struct network *net, size_t bucket_bytes, struct dev_bucket *buckets,
              int *layer);

#endif

/* From layers to steps, as far as it is the same on every device: which layers become a part of
 * another step, and where the buckets are cut. A device has steps, values and operators of its own
 * kind (cpu/graph.c, cuda/graph.cu) and asks here; so does the simulator, which has no device at
 * all in timing runs (simulator/timing.c).
 */
#ifndef KERNELS_STEPS_H
#define KERNELS_STEPS_H

#include "kernels/device.h"

/* Is an output of this layer type stored as its first input is, whatever the layer's shape says?
 * The device's answer. */
typedef bool steps_keeps_shape_fn(int layer_type);

/* Counts the inputs of other layers that are this layer's output. */
int steps_readers(const struct network *net, int layer);
/* Does a flatten layer whose input is stored in this shape move nothing, so that it needs no step?
 * It moves nothing if the image has one channel or one pixel, or if every reader can read the image
 * as it is stored in place of the vector. */
bool steps_flatten_is_none(const struct network *net, int layer, const struct shape *stored,
                           steps_keeps_shape_fn *keeps_shape);

/* How much an input adds to the innermost axis of a concat: all of it where vectors are joined,
 * which may still be stored as the images they were flattened from. */
static inline size_t steps_joined(const struct shape *whole, const struct shape *input)
{
    return whole->rank == 1 ? shape_count(input) : (size_t)input->dim[2];
}

/* Cuts the flat block into buckets of at least bucket_bytes, in the order of the backward pass;
 * returns how many. layer: the one after whose backward pass each is complete, or NULL. Both arrays
 * have room for every layer. */
int steps_cut(const struct network *net, size_t bucket_bytes, struct dev_bucket *buckets,
              int *layer);

#endif

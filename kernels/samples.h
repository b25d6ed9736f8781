/* Samples that a device keeps in its own memory, and views of them. The random choices about a
 * sample (where its window is cut, how far it is shifted, whether it is mirrored) are made on the
 * host, as a view; the device applies it. This file is written in the common subset of C11 and
 * CUDA, so that the host's gathering (worker/data/gather.c) and a device's (cuda/samples.cu) give
 * the same pixels.
 */
#ifndef KERNELS_SAMPLES_H
#define KERNELS_SAMPLES_H

#include <stdint.h>

#include "common/rng.h"

enum { VIEW_OUTSIDE = -1 };

struct dev_view {         /* maps a pixel of the window to one of the picture */
    int32_t at[2];        /* height, width: the window's corner in the shifted picture, negative
                      within the padding */
    int32_t shift[2];     /* how far the picture was moved down and to the right */
    int32_t mirror, edge; /* edge: repeats the edge outside the picture, instead of zeros */
};

/* The picture's row (axis 0) or column (axis 1) that row or column i of the window shows, or
 * VIEW_OUTSIDE. */
RNG_FN int view_source(const struct dev_view *v, int axis, int i, int size)
{
    int at = i + v->at[axis];
    if (at < 0 || at >= size) {
        return VIEW_OUTSIDE;
    }
    at -= v->shift[axis];
    if (at < 0 || at >= size) {
        return !v->edge ? VIEW_OUTSIDE : at < 0 ? 0 : size - 1;
    }
    return at;
}

#endif

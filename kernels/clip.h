/* The length of a gradient, summed so that every device gets the same bits. The sum runs over
 * chunks of CLIP_CHUNK floats of the flat block, and in each chunk over CLIP_LANES lanes (element i
 * belongs to lane i modulo CLIP_LANES), in double. Lanes are added up in order, then chunks in
 * order. The product of two floats is exact in double, so a fused multiply-add changes nothing.
 * This file is written in the common subset of C11 and CUDA.
 */
#ifndef KERNELS_CLIP_H
#define KERNELS_CLIP_H

#include <math.h>

#include "common/rng.h" /* RNG_FN */

enum { CLIP_CHUNK = 4096, CLIP_LANES = 16 };

/* The factor that makes a gradient with this sum of squares, times `scale`, no longer than
 * clip_norm (0: no limit). NaN gives 1, so that it stays visible in the update. */
RNG_FN double clip_factor(double squares, double scale, double clip_norm)
{
    double length = fabs(scale) * sqrt(squares);
    return clip_norm > 0 && length > clip_norm ? clip_norm / length : 1;
}

#endif

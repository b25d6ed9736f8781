/* The length of a gradient, summed so that every device gets the same bits: over chunks of
 * CLIP_CHUNK floats of the flat block, in each over CLIP_LANES lanes (element i belongs to lane i
 * modulo CLIP_LANES), in double. Lanes are added up in order, then chunks in order. A product of
 * two floats is exact in double, so a fused multiply-add changes nothing. Written in what C11 and
 * CUDA have in common.
 */
#ifndef KERNELS_CLIP_H
#define KERNELS_CLIP_H

#include <math.h>

#include "common/rng.h" /* RNG_FN */

enum { CLIP_CHUNK = 4096, CLIP_LANES = 16 };

/* What a gradient with this sum of squares, times `scale`, is multiplied with to be no longer than
 * clip_norm (0: no limit). NaN gives 1, so that it stays visible in the update. */
RNG_FN double clip_factor(double squares, double scale, double clip_norm)
{
    double length = fabs(scale) * sqrt(squares);
    return clip_norm > 0 && length > clip_norm ? clip_norm / length : 1;
}

#endif

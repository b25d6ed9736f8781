/* Which elements dropout keeps: a function of (seed, epoch, sample's index in the data set, layer,
 * element). The same sample therefore loses the same elements on any rank, in any minibatch, on any
 * device.
 *
 * One Philox block gives the words of four neighbouring elements. Elements are numbered in the
 * order in which the layer's output is stored (row, column, channel). This file is written in the
 * common subset of C11 and CUDA.
 */
#ifndef KERNELS_MASK_H
#define KERNELS_MASK_H

#include "common/rng.h"

/* The key of one layer in one epoch. */
RNG_FN uint64_t mask_key(uint64_t seed, int64_t epoch, int layer)
{
    return rng_mix(rng_mix(rng_mix(seed, 0x64726f70u), (uint64_t)epoch), (uint64_t)layer);
}

/* An element is kept if its 24-bit number is not below this. */
RNG_FN uint32_t mask_threshold(double rate)
{
    return (uint32_t)(rate * 16777216.0);
}

/* Words of elements 4*quad to 4*quad+3 of one sample; an element is kept if (word >> 8) >=
 * threshold. */
RNG_FN struct rng_block mask_words(uint64_t key, int64_t sample, uint64_t quad)
{
    return rng_philox(key, (uint64_t)sample, quad);
}

#endif

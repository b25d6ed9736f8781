/* Random numbers by counter, host side: see rng.h. */
#include "common/rng.h"

#include <math.h>

static uint64_t word64(uint64_t seed, uint64_t stream, uint64_t idx)
{
    struct rng_block b = rng_philox(seed, stream, idx);
    return (uint64_t)b.v[1] << 32 | b.v[0];
}

double rng_double(uint64_t seed, uint64_t stream, uint64_t idx)
{
    return (double)(word64(seed, stream, idx) >> 11) * 0x1p-53;
}

double rng_normal(uint64_t seed, uint64_t stream, uint64_t idx)
{
    struct rng_block b = rng_philox(seed, stream, idx);
    /* Box-Muller; u is in (0, 1] so that its logarithm is finite */
    double u = ((double)(((uint64_t)b.v[1] << 32 | b.v[0]) >> 11) + 1) * 0x1p-53;
    double v = (double)(((uint64_t)b.v[3] << 32 | b.v[2]) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t idx, uint64_t n)
{
    /* the high half of a 64 x 64 bit product: unbiased to 2^-64 * n */
    return (uint64_t)(((unsigned __int128)word64(seed, stream, idx) * n) >> 64);
}

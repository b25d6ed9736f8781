/* Random numbers by counter: a value is a pure function of (seed, stream, index), so every rank and
 * every device makes the same choice, in any order. The function is Philox 4x32-10 (Salmon et al.,
 * 2011). It is inline, and written in the common subset of C11 and CUDA.
 */
#ifndef COMMON_RNG_H
#define COMMON_RNG_H

#include <stdint.h>

#ifdef __CUDACC__
#define RNG_FN static inline __host__ __device__
#else
#define RNG_FN static inline
#endif

struct rng_block {
    uint32_t v[4];
};

RNG_FN struct rng_block rng_philox(uint64_t key, uint64_t hi, uint64_t lo)
{
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi,
             c3 = (uint32_t)(hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct rng_block b = {{c0, c1, c2, c3}};
    return b;
}

/* Mixes words into one 64-bit stream number (splitmix64 steps). */
RNG_FN uint64_t rng_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + 0x9E3779B97F4A7C15ull * (b + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1) with 24 bits, exact in float. */
RNG_FN float rng_uniform(uint32_t word)
{
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

/* Host only: the idx-th uniform double, normal, or integer below n of a stream. */
double rng_double(uint64_t seed, uint64_t stream, uint64_t idx);
double rng_normal(uint64_t seed, uint64_t stream, uint64_t idx);
uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t idx, uint64_t n);

#endif

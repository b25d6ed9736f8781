/* Elements of activations and of their gradients: fp32, or bf16 (the upper half of an fp32) in
 * programs of that precision. Our own operators compute in fp32 with both. A loop is written once,
 * between GET and PUT, and ELEMENTS compiles it for each.
 *
 * Addresses of activations are void pointers and indices count elements, so never add to such
 * an address.
 */
#ifndef KERNELS_CPU_ELEMENT_H
#define KERNELS_CPU_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ELEMENT_FN static inline __attribute__((always_inline))

static inline size_t element_size(bool bf16)
{
    return bf16 ? sizeof(uint16_t) : sizeof(float);
}

static inline void *element_at(const void *from, size_t i, bool bf16)
{
    return (char *)(uintptr_t)from + i * element_size(bf16);
}

ELEMENT_FN float element_get(const void *from, size_t i, bool bf16)
{
    if (!bf16) {
        return ((const float *)from)[i];
    }
    uint32_t word = (uint32_t)((const uint16_t *)from)[i] << 16;
    float x;
    memcpy(&x, &word, sizeof(x));
    return x;
}

/* Rounds to the nearest, ties to even; NaN stays NaN. */
ELEMENT_FN void element_put(void *to, size_t i, float x, bool bf16)
{
    if (!bf16) {
        ((float *)to)[i] = x;
        return;
    }
    uint32_t word, rounded;
    memcpy(&word, &x, sizeof(word));
    rounded = (word + 0x7fffu + (word >> 16 & 1)) >> 16;
    ((uint16_t *)to)[i] = (uint16_t)((word & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

ELEMENT_FN void element_copy(void *to, size_t i, const void *from, size_t j, bool bf16)
{
    if (bf16) {
        ((uint16_t *)to)[i] = ((const uint16_t *)from)[j];
    } else {
        ((float *)to)[i] = ((const float *)from)[j];
    }
}

/* The code for fp32 and for bf16, of which one runs. Inside, GET, PUT and COPY are of that kind. */
#define ELEMENTS(bf16, ...)               \
    do {                                  \
        if (bf16) {                       \
            enum { ELEMENT_IS_BF16 = 1 }; \
            __VA_ARGS__                   \
        } else {                          \
            enum { ELEMENT_IS_BF16 = 0 }; \
            __VA_ARGS__                   \
        }                                 \
    } while (0)
#define GET(from, i) element_get(from, i, ELEMENT_IS_BF16)
#define PUT(to, i, x) element_put(to, i, x, ELEMENT_IS_BF16)
#define COPY(to, i, from, j) element_copy(to, i, from, j, ELEMENT_IS_BF16)

#endif

/* FNV-1a, 64 bits: a stable hash for keys. It is easy to forge, so never use it as a digest. */
#ifndef COMMON_TEXT_HASH_H
#define COMMON_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325ull

/* Continues from h, which is HASH_START or the hash of the preceding bytes. */
static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001b3ull;
    }
    return h;
}

#endif

/* Bytes as hexadecimal digits: digests, keys, tokens, ids. */
#ifndef COMMON_TEXT_HEX_H
#define COMMON_TEXT_HEX_H

#include <stddef.h>

/* Writes 2 n lower-case digits and a NUL into `out`. */
static inline void hex_of(char *out, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = '\0';
}

#endif

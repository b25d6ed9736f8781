/* Unsafe characters of UTF-8 text; see text.h. */
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The length of the character at s, of n bytes at most, and its code point; 0: not UTF-8. */
static size_t decode(const char *s, size_t n, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*s;
    size_t len = first < 0x80             ? 1
                 : (first & 0xe0) == 0xc0 ? 2
                 : (first & 0xf0) == 0xe0 ? 3
                 : (first & 0xf8) == 0xf0 ? 4
                                          : 0;
    if (len == 0 || len > n) {
        return 0;
    }
    *code = len == 1 ? first : first & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | ((unsigned char)s[i] & 0x3f);
    }
    bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code >= least[len] && *code < 0x110000 && !surrogate ? len : 0;
}

static bool is_unsafe(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

size_t text_unsafe(const char *s, size_t n)
{
    uint32_t code;
    for (size_t i = 0, len; i < n; i += len) {
        len = decode(s + i, n - i, &code);
        if (len == 0 || is_unsafe(code)) {
            return i;
        }
    }
    return n;
}

char *text_shown(char *out, size_t size, const char *s)
{
    size_t n = strlen(s), at = 0;
    uint32_t code;
    for (size_t i = 0, len; i < n; i += len) {
        char escaped[8];
        const char *from = escaped;
        size_t bytes;
        len = decode(s + i, n - i, &code);
        if (len == 0) {
            bytes = (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)s[i]);
            len = 1;
        } else if (is_unsafe(code)) {
            bytes = (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", code);
        } else {
            from = s + i;
            bytes = len;
        }
        if (at + bytes + 1 > size) {
            break;
        }
        memcpy(out + at, from, bytes);
        at += bytes;
    }
    out[at] = 0;
    return out;
}

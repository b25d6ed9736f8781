/* Unsafe characters of UTF-8 text; see text.h. */
#include "common/text/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the character at s, which has at most n bytes, and its code point; 0: not UTF-8. */
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

/* Is the character invisible? Those are Unicode's Default_Ignorable_Code_Point
 * (DerivedCoreProperties.txt), the characters that frame annotations (U+FFF9 to U+FFFB) and
 * hieroglyphs, and noncharacters. The other format characters (Cf) are visible signs, such as those
 * before Arabic numbers. */
static bool is_unseen(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c},   {0x115f, 0x1160},
        {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2060, 0x206f},
        {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfdd0, 0xfdef},   {0xfff0, 0xfffb},   {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    if ((code & 0xfffe) == 0xfffe) {
        return true; /* the last two of each plane are noncharacters */
    }
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (code >= ranges[i][0] && code <= ranges[i][1]) {
            return true;
        }
    }
    return false;
}

/* White_Space, and the Braille pattern without dots. */
static bool is_blank(uint32_t code)
{
    return code == ' ' || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x202f || code == 0x205f || code == 0x2800 || code == 0x3000;
}

static bool is_variant(uint32_t code)
{
    return code >= 0xfe00 && code <= 0xfe0f;
}

/* Joiners and variation selectors belong to the letter or picture before them, outside the
 * alphabets of Europe: words of Persian and Hindi and many emoji contain one. */
static bool joins(uint32_t code, uint32_t before)
{
    enum { FIRST_JOINED = 0x0590 /* Hebrew; then Arabic, the scripts of India, symbols */ };
    bool zero_width = code == 0x200c || code == 0x200d;
    return before >= FIRST_JOINED && !is_blank(before) &&
           (is_unseen(before) ? code == 0x200d && is_variant(before)
                              : zero_width || is_variant(code));
}

const char *text_name_wrong(char out[TEXT_WRONG], const char *s, size_t n)
{
    uint32_t code = 0;
    bool seen = false;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t before = code;
        len = decode(s + i, n - i, &code);
        if (len == 0 || is_unsafe(code)) {
            snprintf(out, TEXT_WRONG, "contains a control character at byte %zu", i);
            return out;
        }
        if (is_unseen(code) && !joins(code, before)) {
            snprintf(out, TEXT_WRONG, "contains the invisible character U+%04X at byte %zu", code,
                     i);
            return out;
        }
        seen = seen || !is_blank(code);
    }
    if (!seen) {
        snprintf(out, TEXT_WRONG, "%s", n == 0 ? "is empty" : "consists of blanks");
    }
    return seen ? NULL : out;
}

struct piece { /* one character as it is shown */
    char text[8];
    size_t bytes;
};

/* Shows the character at s, which has at most n bytes; returns its length in s. */
static size_t show(const char *s, size_t n, struct piece *out)
{
    uint32_t code;
    size_t len = decode(s, n, &code);
    if (len == 0) {
        out->bytes = (size_t)snprintf(out->text, sizeof out->text, "\\x%02x", (unsigned char)*s);
        return 1;
    }
    if (is_unsafe(code)) {
        out->bytes = (size_t)snprintf(out->text, sizeof out->text, "\\u%04x", code);
    } else {
        memcpy(out->text, s, len);
        out->bytes = len;
    }
    return len;
}

char *text_shown(char *out, size_t size, const char *s)
{
    size_t at = 0;
    struct piece piece;
    for (size_t n = strlen(s), len; n > 0; s += len, n -= len) {
        len = show(s, n, &piece);
        if (at + piece.bytes + 1 > size) {
            break;
        }
        memcpy(out + at, piece.text, piece.bytes);
        at += piece.bytes;
    }
    out[at] = 0;
    return out;
}

void text_print(FILE *out, const char *s)
{
    struct piece piece;
    for (size_t n = strlen(s), len; n > 0; s += len, n -= len) {
        len = show(s, n, &piece);
        if (*s == '\n' || *s == '\t') {
            fputc(*s, out);
        } else {
            fwrite(piece.text, 1, piece.bytes, out);
        }
    }
}

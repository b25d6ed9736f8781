/* Pages of the manual: see roff.h. */
#include "common/text/roff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE = 76 };

/* Length and code point of the UTF-8 character at p, which may be incomplete. */
static size_t decode(const unsigned char *p, uint32_t *code)
{
    size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4, i = 1;
    *code = n == 1 ? *p : *p & (0xffu >> (n + 1));
    for (; i < n && p[i]; i++) {
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return i;
}

/* Writes one character for roff; `first`: it starts a line. Returns its bytes. */
static size_t spell(uint32_t code, bool first, char out[16])
{
    if (code >= 0x80) {
        return (size_t)snprintf(out, 16, "\\[u%04X]", (unsigned)code);
    }
    const char *other = code == '\\'           ? "\\e"
                        : code == '-'          ? "\\-"
                        : code == '\''         ? "\\(aq"
                        : code == '.' && first ? "\\&."
                                               : NULL;
    return (size_t)(other ? snprintf(out, 16, "%s", other) : snprintf(out, 16, "%c", (char)code));
}

/* Bytes that the word at p takes on the page. */
static size_t word_bytes(const unsigned char *p)
{
    char spelled[16];
    size_t n = 0;
    for (uint32_t code; *p && *p != ' '; n += spell(code, false, spelled)) {
        p += decode(p, &code);
    }
    return n;
}

void roff_text(const char *text, FILE *out)
{
    const unsigned char *p = (const unsigned char *)text;
    char spelled[16];
    size_t column = 0;
    for (uint32_t code; *p;) {
        p += decode(p, &code);
        if (code == ' ' && column > 0 && column + 1 + word_bytes(p) > LINE) {
            fputc('\n', out);
            column = 0;
        } else {
            column += spell(code, column == 0, spelled);
            fputs(spelled, out);
        }
    }
}

void roff_section(const char *title, const char *text, FILE *out)
{
    fprintf(out, ".SH %s\n", title);
    if (text) {
        roff_text(text, out);
        fputc('\n', out);
    }
}

void roff_term(const char *bold, const char *more, const char *help, FILE *out)
{
    fputs(".TP\n\\fB", out);
    roff_text(bold, out);
    fputs("\\fR", out);
    if (*more) {
        fputs(" \\fI", out);
        roff_text(more, out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    roff_text(help, out);
    fputc('\n', out);
}

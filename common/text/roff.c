/* Pages of the manual: see roff.h. */
#include "common/text/roff.h"

#include <stddef.h>
#include <stdint.h>

enum { LINE = 60 };

/* Bytes of the UTF-8 character at p, and its code point. */
static size_t decode(const unsigned char *p, uint32_t *code)
{
    size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    *code = n == 1 ? *p : *p & (0xffu >> (n + 1));
    for (size_t i = 1; i < n && p[i]; i++) {
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return n;
}

void roff_text(const char *text, FILE *out)
{
    const unsigned char *p = (const unsigned char *)text, *line = p;
    for (uint32_t code; *p; p += decode(p, &code)) {
        decode(p, &code);
        if (code == ' ' && p - line > LINE) {
            fputc('\n', out);
            line = p + 1;
        } else if (code >= 0x80) {
            fprintf(out, "\\[u%04X]", (unsigned)code);
        } else if (code == '\\') {
            fputs("\\e", out);
        } else if (code == '-') {
            fputs("\\-", out);
        } else if (code == '\'') {
            fputs("\\(aq", out);
        } else if (code == '.' && p == line) {
            fputs("\\&.", out);
        } else {
            fputc((int)code, out);
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

/* Markdown in lines of at most 100 columns, for the programs of this folder. Lines are broken at
 * spaces; tables stay as they are, and a line of a block of code goes on further right. */
#ifndef DOCS_PRINT_FOLD_H
#define DOCS_PRINT_FOLD_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FOLD_COLUMNS = 100 };

/* Columns of n bytes of UTF-8. */
static inline int fold_width(const char *text, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n; i++) {
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return width;
}

/* One line of n bytes, without its end. */
static inline void fold_line(const char *line, size_t n, bool code, FILE *out)
{
    int column = 0;
    for (const char *word = line, *end = line + n; word < end;) {
        const char *space = memchr(word, ' ', (size_t)(end - word));
        size_t bytes = (size_t)((space ? space : end) - word);
        int width = fold_width(word, bytes);
        if (column > 0 && column + 1 + width > FOLD_COLUMNS) {
            column = fprintf(out, code ? "\n    " : "\n") - 1;
        } else if (word > line) {
            column += fprintf(out, " ");
        }
        fwrite(word, 1, bytes, out);
        column += width;
        word += bytes + 1;
    }
}

/* A text of whole lines. */
static inline void fold_print(const char *text, FILE *out)
{
    bool code = false;
    while (*text) {
        size_t n = strcspn(text, "\n");
        code = code != (strncmp(text, "```", 3) == 0);
        if (*text == '|' || fold_width(text, n) <= FOLD_COLUMNS) {
            fwrite(text, 1, n, out);
        } else {
            fold_line(text, n, code, out);
        }
        fputc('\n', out);
        text += n + (text[n] == '\n');
    }
}

#endif

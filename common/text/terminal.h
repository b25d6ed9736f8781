/* How wide a terminal is, and how wide text is on it: Latin letters take one column, Chinese ones
 * two, combining marks none. */
#ifndef COMMON_TEXT_TERMINAL_H
#define COMMON_TEXT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Columns that a line may have: COLUMNS from the environment, else the terminal's width. 0, no
 * limit, if `out` is no terminal, so that programs that read it get whole lines. */
int terminal_width(FILE *out);
/* Lines of the terminal: LINES from the environment, else the terminal's height, else 24. */
int terminal_height(FILE *out);
/* Is `out` a terminal that can move its cursor, so that lines can be redrawn? A pipe is not, nor is
 * a terminal whose TERM is "dumb" or missing. */
bool terminal_draws(FILE *out);
/* Ends the program by SIGPIPE, as a write would, if `out` is a pipe or socket without a reader. For
 * commands that wait long between two lines. */
void terminal_end_unread(FILE *out);
/* Columns that UTF-8 text takes. The text must be safe (common/text/text.h). */
int text_columns(const char *text);
/* `text` cut to this many columns; a cut text ends in "…". Returns out. */
char *text_cut(char *out, size_t size, const char *text, int columns);
/* Writes `first` and then a sentence. A sentence wider than `width` columns (0: no limit)
 * continues, at a word, on further lines that are indented by `hang` blanks. */
void text_fill(FILE *out, int width, const char *first, int hang, const char *text);
/* As text_fill() on standard output, at its width; further lines are indented two columns more than
 * `first` is wide. The text ends after 4,095 bytes. */
void terminal_say(const char *first, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

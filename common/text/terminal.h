/* How wide a terminal is, and how wide text is on it: Latin letters take one column, Chinese ones
 * two, combining marks none. */
#ifndef COMMON_TEXT_TERMINAL_H
#define COMMON_TEXT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Columns that a line may have: COLUMNS from the environment, else what the terminal says; 0, no
 * limit: `out` is no terminal, so that what others read stays whole. */
int terminal_width(FILE *out);
/* Its lines: LINES from the environment, else what the terminal says, else 24. */
int terminal_height(FILE *out);
/* Is it a terminal that moves its cursor, so that lines can be drawn over? A pipe does not, nor
 * does a terminal whose TERM is "dumb" or missing. */
bool terminal_draws(FILE *out);
/* Ends the program by SIGPIPE, as a write would, if `out` is a pipe or socket whose reader is gone:
 * for commands that wait for a long time between two lines. */
void terminal_end_unread(FILE *out);
/* Columns that UTF-8 text takes. Text is safe already (common/text/text.h). */
int text_columns(const char *text);
/* `text` cut to so many columns, the last of them "…" if anything was cut. Returns out. */
char *text_cut(char *out, size_t size, const char *text, int columns);
/* Writes a sentence behind `first`. Where it would be wider than `width` columns (0: no limit), it
 * goes on, from a word on, in further lines behind `hang` blanks. */
void text_fill(FILE *out, int width, const char *first, int hang, const char *text);
/* The same for standard output, as wide as that is; further lines begin two columns further to the
 * right than `first` is wide. The text ends after 4,095 bytes. */
void terminal_say(const char *first, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

/* Manual pages, in the man macros of roff (man(7)). */
#ifndef COMMON_TEXT_ROFF_H
#define COMMON_TEXT_ROFF_H

#include <stdio.h>

/* Writes text so that roff shows it unchanged: escapes - \ and ', writes non-ASCII characters by
 * number, and keeps lines short enough for an editor. Nothing at the start of a line is taken for a
 * request. */
void roff_text(const char *text, FILE *out);
/* A section's heading, and its text if not NULL. */
void roff_section(const char *title, const char *text, FILE *out);
/* A term with its description below it. `more` follows the term in italics; "" for none. */
void roff_term(const char *bold, const char *more, const char *help, FILE *out);

#endif

/* Pages of the manual, in the man macros of roff (man(7)). */
#ifndef COMMON_TEXT_ROFF_H
#define COMMON_TEXT_ROFF_H

#include <stdio.h>

/* Text as roff takes it for itself: - \ and ' as such, other than ASCII by number, in lines that an
 * editor shows whole. Nothing that begins a line is taken for a request. */
void roff_text(const char *text, FILE *out);
/* A section's head, and its text unless that is NULL. */
void roff_section(const char *title, const char *text, FILE *out);
/* A term, and what it is, below it; `more` stands behind the term in italics, "" for none. */
void roff_term(const char *bold, const char *more, const char *help, FILE *out);

#endif

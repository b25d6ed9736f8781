/* Text that others wrote, shown to people: characters that a terminal obeys, or that change the
 * order in which a line is read, are neither taken nor printed.
 */
#ifndef COMMON_TEXT_TEXT_H
#define COMMON_TEXT_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* The first byte in s[0..n) that begins such a character (C0 and C1 controls, DEL, U+2028 to
 * U+202E, U+2066 to U+2069) or is not UTF-8; n: there is none. */
size_t text_unsafe(const char *s, size_t n);
/* `s` with those written as \u009b, other bytes that are no UTF-8 as \xff; cut to fit. Returns out.
 */
char *text_shown(char *out, size_t size, const char *s);
/* Writes `s` as text_shown() shows it, but for its tabs and line ends. */
void text_print(FILE *out, const char *s);

#endif

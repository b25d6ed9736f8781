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
/* What is wrong with s[0..n) as a name, which people tell from others by looking at it: an unsafe
 * character, one that is not seen (as a zero-width space, a mark of direction, a soft hyphen; not
 * what joins the letters of a Persian word or makes an emoji), or nothing but blanks. NULL: it is a
 * good name; otherwise `out`, as in "contains a control character at byte 3". The one rule for
 * names of jobs, sweeps, virtual nodes, tokens and owners; tags and what is named after a file or a
 * host have letters and digits of ASCII. */
enum { TEXT_WRONG = 64 };
const char *text_name_wrong(char out[TEXT_WRONG], const char *s, size_t n);
/* `s` with those written as \u009b, other bytes that are no UTF-8 as \xff; cut to fit. Returns out.
 */
char *text_shown(char *out, size_t size, const char *s);
/* Writes `s` as text_shown() shows it, but for its tabs and line ends. */
void text_print(FILE *out, const char *s);

#endif

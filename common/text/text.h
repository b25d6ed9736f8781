/* Other people's text, shown safely. Characters that control a terminal, or that change the order
 * in which a line is read, are neither accepted nor printed.
 */
#ifndef COMMON_TEXT_TEXT_H
#define COMMON_TEXT_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* The first byte in s[0..n) that starts an unsafe character (C0 and C1 controls, DEL, U+2028 to
 * U+202E, U+2066 to U+2069) or is not UTF-8; n if there is none. */
size_t text_unsafe(const char *s, size_t n);
/* What is wrong with s[0..n) as a name, which people must be able to tell from others by sight: an
 * unsafe character, an invisible one, or nothing but blanks. Invisible are a zero-width space, a
 * direction mark or a soft hyphen, but not what joins the letters of a Persian word or makes an
 * emoji. NULL if the name is good; otherwise `out`, as in "contains a control character at byte 3".
 * This one rule holds for names of jobs, sweeps, virtual nodes, tokens and owners. Tags, and names
 * of files or hosts, have ASCII letters and digits. */
enum { TEXT_WRONG = 64 };
const char *text_name_wrong(char out[TEXT_WRONG], const char *s, size_t n);
/* `s` with unsafe characters written as \u009b and bytes that are not UTF-8 as \xff; cut to fit.
 * Returns out. */
char *text_shown(char *out, size_t size, const char *s);
/* Writes `s` as text_shown() shows it, but keeps tabs and line ends. */
void text_print(FILE *out, const char *s);

#endif

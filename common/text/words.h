/* Lists in one line: "a,b,c". */
#ifndef COMMON_TEXT_WORDS_H
#define COMMON_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the next word of the list at *at, cut to fit, and moves *at behind the word's comma.
 * false: there is none. Words may be empty ("a,,b" has three); nothing follows a comma at the
 * end. */
bool words_next(const char **at, char *word, size_t size);

#endif

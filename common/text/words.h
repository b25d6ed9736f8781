/* Lists in one line: "a,b,c". */
#ifndef COMMON_TEXT_WORDS_H
#define COMMON_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the next word of the list at *at, cut to fit, and moves *at past the word's comma. False
 * if there is no word left. Words may be empty ("a,,b" has three); a comma at the end is not
 * followed by an empty word. */
bool words_next(const char **at, char *word, size_t size);

#endif

/* Lists in one line: "a,b,c". */
#ifndef COMMON_WORDS_H
#define COMMON_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* The next word of the list at *at, which moves behind its comma; cut to fit. false: there is none.
 * Words may be empty ("a,,b" has three); nothing follows a comma at the end. */
bool words_next(const char **at, char *word, size_t size);

#endif

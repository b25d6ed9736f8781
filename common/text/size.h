/* Sizes as people write them: "500M", "1.5T", or a number of bytes. */
#ifndef COMMON_TEXT_SIZE_H
#define COMMON_TEXT_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* K, M, G and T are powers of 1024. False if it is not a size of at least one byte. */
bool size_parse(const char *text, int64_t *bytes);

#endif

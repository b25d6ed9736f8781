/* Reads lines that common/log.h writes: ts=… level=info mod=program msg=says line="…". */
#ifndef COMMON_TEXT_LOGLINE_H
#define COMMON_TEXT_LOGLINE_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a key, without quotes and escapes, cut to fit. False if the line has no such key. */
bool logline_value(const char *line, const char *key, char *out, size_t size);

#endif

/* JSON beyond Jansson: strict parsing with line and column, a list of problems each with its JSON
 * pointer, typed readers that report into that list, and numbers printed so that they read well.
 */
#ifndef COMMON_JSON_JSONX_H
#define COMMON_JSON_JSONX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* All problems of a document, each with its JSON pointer. */
struct jsonx_problem {
    char pointer[200]; /* RFC 6901 */
    char message[300];
};
struct jsonx_problems {
    struct jsonx_problem *items; /* owned */
    int count;
    int dropped; /* how many there were beyond 100 */
};
void jsonx_problems_release(struct jsonx_problems *p);
void jsonx_problem(struct jsonx_problems *p, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The first problem as text, "/epochs: must be a whole number"; only the message if the pointer is
 * "". "" if there is no problem. Returns out. */
enum { JSONX_FIRST = sizeof(struct jsonx_problem) + 2 };
const char *jsonx_problems_first(const struct jsonx_problems *p, char out[JSONX_FIRST]);
/* [{"pointer", "message"}]; a new reference. */
json_t *jsonx_problems_json(const struct jsonx_problems *p);

/* Parses `len` bytes. ERR_SYNTAX, with line and column in the message: duplicate keys, trailing
 * text, NUL bytes, more than 64 levels, or bad UTF-8. ERR_INVALID: strings with \u0000 and numbers
 * that no C type here can hold; both are valid JSON. Returns a new reference or NULL. */
json_t *jsonx_parse(const char *text, size_t len, struct err *e);
json_t *jsonx_load(const char *path, size_t max_bytes, struct err *e);
/* Prints compactly, or indented by two. Keys keep their order; reals have as many significant
 * digits as they need (so 0.4 is 0.4). The caller frees. */
char *jsonx_dump(const json_t *j, bool indent, size_t *len);
/* The shortest text that reads back as the same finite number; returns out. */
enum { JSONX_REAL = 40 };
const char *jsonx_real(char out[JSONX_REAL], double v);

/* A string of text that may hold a user's bytes or end within a UTF-8 sequence. Leaves out the
 * incomplete sequence, and shows other bytes that are not UTF-8 as text_shown() does. New
 * reference. */
json_t *jsonx_text(const char *text);

/* The text at `key` of an object, borrowed from it; "" if there is none. */
const char *jsonx_string_at(const json_t *j, const char *key);

/* Appends "/key" (escaped) or "/index" to a pointer, into out. */
char *jsonx_join(char *out, size_t out_bytes, const char *pointer, const char *key);
char *jsonx_join_index(char *out, size_t out_bytes, const char *pointer, size_t index);

/* The nearest of n names by edit distance; NULL if its distance is more than 1 + len/3. */
const char *jsonx_nearest(const char *name, const char *const *names, int n);

#endif

/* A growing byte buffer with a cap. An append never overflows; past the cap it fails cleanly. */
#ifndef COMMON_TEXT_BUF_H
#define COMMON_TEXT_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;  /* NUL-terminated after the first append; NULL before */
    size_t len;  /* bytes in use, without the NUL */
    size_t size; /* bytes allocated */
    size_t cap;  /* most bytes that it may hold */
    bool failed; /* an append did not fit or memory ran out; later appends do nothing */
};

void buf_init(struct buf *b, size_t cap);
void buf_release(struct buf *b);
void buf_reset(struct buf *b); /* empties it, keeps the memory, clears `failed` */
void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_adds(struct buf *b, const char *text);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Moves the memory out; the caller frees. NULL if `failed`. */
char *buf_take(struct buf *b, size_t *len);

#endif

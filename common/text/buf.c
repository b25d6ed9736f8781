/* A growing byte buffer with a cap: see buf.h. */
#include "common/text/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t cap)
{
    memset(b, 0, sizeof *b);
    b->cap = cap;
}

void buf_release(struct buf *b)
{
    free(b->data);
    buf_init(b, b->cap);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) {
        b->data[0] = 0;
    }
}

/* Makes room for n more bytes and a NUL. */
static bool reserve(struct buf *b, size_t n)
{
    if (b->failed || n > b->cap - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + n + 1;
    if (need > b->size) {
        size_t size = b->size ? b->size : 128;
        while (size < need) {
            size *= 2;
        }
        char *data = realloc(b->data, size);
        if (!data) {
            b->failed = true;
            return false;
        }
        b->data = data;
        b->size = size;
    }
    return true;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    if (reserve(b, n)) {
        if (n) {
            memcpy(b->data + b->len, bytes, n);
        }
        b->len += n;
        b->data[b->len] = 0;
    }
}

void buf_adds(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

/* Prints into the available room, and again after growing if it was too small. */
void buf_addf(struct buf *b, const char *fmt, ...)
{
    size_t room = b->size - b->len;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(room > 0 ? b->data + b->len : NULL, room, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(b, (size_t)n)) {
        b->failed = true;
        if (b->data) {
            b->data[b->len] = 0;
        }
        return;
    }
    if ((size_t)n >= room) {
        va_start(ap, fmt);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    b->len += (size_t)n;
}

char *buf_take(struct buf *b, size_t *len)
{
    if (b->failed || !reserve(b, 0)) {
        buf_release(b);
        return NULL;
    }
    char *data = b->data;
    data[b->len] = 0;
    if (len) {
        *len = b->len;
    }
    b->data = NULL;
    buf_release(b);
    return data;
}

/* See protobuf.h. A field is a number (its id and how it is written), then its value:
 *
 *   id << 3 | 0   a whole number in groups of 7 bits, the lowest first
 *   id << 3 | 5   4 bytes
 *   id << 3 | 2   a length, then so many bytes
 */
#include "worker/checkpoint/protobuf.h"

#include <string.h>

enum { WHOLE = 0, LENGTH = 2, FOUR_BYTES = 5 };

static void put_number(struct buf *to, uint64_t v)
{
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v > 0);
    buf_add(to, bytes, n);
}

static void put_key(struct buf *to, int field, int kind)
{
    put_number(to, (uint64_t)field << 3 | (uint64_t)kind);
}

void protobuf_int(struct buf *to, int field, int64_t value)
{
    put_key(to, field, WHOLE);
    put_number(to, (uint64_t)value);
}

void protobuf_float(struct buf *to, int field, float value)
{
    put_key(to, field, FOUR_BYTES);
    buf_add(to, &value, sizeof(value));
}

void protobuf_bytes(struct buf *to, int field, const void *bytes, size_t n)
{
    put_key(to, field, LENGTH);
    put_number(to, n);
    buf_add(to, bytes, n);
}

void protobuf_text(struct buf *to, int field, const char *text)
{
    protobuf_bytes(to, field, text, strlen(text));
}

void protobuf_message(struct buf *to, int field, struct buf *part)
{
    to->failed |= part->failed;
    protobuf_bytes(to, field, part->len ? part->data : "", part->len);
    buf_reset(part);
}

/* Writing protocol buffers (protobuf.dev/programming-guides/encoding): fields of a message, one
 * after the other, into a buffer. A message within a message is written into a buffer of its own
 * first, as its length comes before it. A buffer that failed stays failed (common/text/buf.h). */
#ifndef WORKER_CHECKPOINT_PROTOBUF_H
#define WORKER_CHECKPOINT_PROTOBUF_H

#include <stdint.h>

#include "common/text/buf.h"

void protobuf_int(struct buf *to, int field, int64_t value);
void protobuf_float(struct buf *to, int field, float value);
void protobuf_bytes(struct buf *to, int field, const void *bytes, size_t n);
void protobuf_text(struct buf *to, int field, const char *text);
/* The message in `part`, which is emptied. */
void protobuf_message(struct buf *to, int field, struct buf *part);

#endif

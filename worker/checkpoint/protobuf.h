/* Writes protocol buffers (protobuf.dev/programming-guides/encoding): the fields of a message, one
 * after the other, into a buffer. A nested message first goes into a buffer of its own, because its
 * length precedes it. A failed buffer stays failed (common/text/buf.h). */
#ifndef WORKER_CHECKPOINT_PROTOBUF_H
#define WORKER_CHECKPOINT_PROTOBUF_H

#include <stdint.h>

#include "common/text/buf.h"

void protobuf_int(struct buf *to, int field, int64_t value);
void protobuf_float(struct buf *to, int field, float value);
void protobuf_bytes(struct buf *to, int field, const void *bytes, size_t n);
void protobuf_text(struct buf *to, int field, const char *text);
/* Appends the message in `part`, and empties `part`. */
void protobuf_message(struct buf *to, int field, struct buf *part);

#endif

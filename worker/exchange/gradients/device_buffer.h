/* Memory that a rank exchanges blocks from: a buffer of the device where MPI takes the device's
 * pointers, else the replica's host mirror (docs/decisions/0004-device-pointers.md). Also the one
 * place that asks whether a device can read a block elsewhere. Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_GRADIENTS_DEVICE_BUFFER_H
#define WORKER_EXCHANGE_GRADIENTS_DEVICE_BUFFER_H

#include "worker/exchange/strategy.h"

struct device_buffer {
    struct device *dev; /* NULL: there is none, and blocks are exchanged from the host mirror */
    const struct dev_memory_ops *ops;
    float *memory; /* [floats] of the device; owned */
    float *words;  /* [words] pinned: what the host adds to a message, and reads of one; owned */
};

/* Allocates one if MPI and the device allow it, and logs the result or the reason. True if there is
 * one. Called by a worker before its first step. */
bool device_buffer_open(struct device_buffer *b, struct rank_env *env, size_t floats, size_t words);
void device_buffer_close(struct device_buffer *b);

/* The memory from which a whole block of the replica is exchanged: `memory`, or the host mirror. */
float *device_buffer_block(const struct device_buffer *b, struct dev_replica *r,
                           enum dev_block block);
/* Floats [first, first + n) of the replica's block to that place, and from there. */
int device_buffer_fetch(const struct device_buffer *b, struct dev_replica *r, enum dev_block block,
                        size_t first, size_t n, struct err *e);
int device_buffer_store(const struct device_buffer *b, struct dev_replica *r, enum dev_block block,
                        size_t first, size_t n, struct err *e);

/* Whether this device can read a block of host memory where it is. */
bool device_reads_in_place(const struct dev_replica *r);
/* From now on the block's values are those at `at`, which do not change; NULL: the replica's own
 * again. Does nothing if the device cannot. */
void device_read_at(struct dev_replica *r, enum dev_block block, float *at);

#endif

/* The block: the memory that a rank and its program share. The rank makes it as a sealed memfd
 * (it cannot shrink or grow, so neither side can make the other's accesses fail) and gives the
 * program a descriptor. Not /dev/shm, which containers limit to 64 MB.
 *
 *      shared │ params │ grads │ stats │ buckets │ indices [slots][global_batch] │ copy
 *
 * Each part is aligned to 64 bytes.
 */
#ifndef WORKER_PROGRAM_CHILD_BLOCK_H
#define WORKER_PROGRAM_CHILD_BLOCK_H

#include "client/protocol.h"
#include "job/network/network.h"
#include "kernels/device.h"

struct block {
    int fd;      /* -1: there is none */
    uint8_t *at; /* [bytes] mapped */
    size_t bytes;
    struct wire_shared *shared;    /* in the block, as all below */
    float *params, *grads, *stats; /* [n_params] twice, [n_stat_floats] */
    struct wire_bucket *wire;      /* [n_buckets] */
    int64_t *indices;              /* [slots][global_batch] */
    float *copy; /* [n_params + n_stat_floats] of before the program's step (WIRE_KEEP); or NULL */
    int n_buckets, slots;
    int64_t global_batch;
    struct dev_bucket *buckets; /* [n_buckets] the same ranges for a strategy; owned */
};

/* Buckets are cut at tensors, and have at least bucket_bytes where the network allows. Bucket 0 has
 * the last tensors, whose gradients a backward pass computes first. Only after success the caller
 * calls block_release. */
int block_init(struct block *b, const struct network *net, size_t bucket_bytes, int slots,
               int64_t global_batch, bool copies, struct err *e);
void block_release(struct block *b);
/* A process that has begun no slice gets the block. */
void block_begin(struct block *b);
/* Fills what WELCOME says of the block, and its flag WIRE_KEEP. */
void block_describe(const struct block *b, const struct network *net, struct wire_message *m);

#endif

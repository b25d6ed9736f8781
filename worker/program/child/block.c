/* The shared memory of a rank and its program: see block.h. */
#include "worker/program/child/block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, BUCKETS_MOST = 200 };

static size_t take(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* How much of a step's work is done when a bucket is ready: the forward pass is a third of it. */
static double work_done(size_t floats_done, size_t floats)
{
    return (1 + 2 * (double)floats_done / (double)floats) / 3;
}

/* Cuts from the last tensor to the first; out NULL: only counts. */
static int cut(const struct network *net, size_t least, struct dev_bucket *out)
{
    int n = 0;
    size_t end = net->n_params;
    for (int i = net->n_tensors - 1; i >= 0; i--) {
        size_t first = net->tensors[i].first;
        if (first != 0 && (end - first < least || first < least / 2)) {
            continue; /* the last bucket takes what would be less than half of one */
        }
        if (out) {
            out[n] = (struct dev_bucket){first, end - first,
                                         work_done(net->n_params - first, net->n_params)};
        }
        n++;
        end = first;
    }
    return n;
}

static size_t least_floats(const struct network *net, size_t bucket_bytes)
{
    size_t least = bucket_bytes / sizeof(float), even = net->n_params / BUCKETS_MOST + 1;
    return least > even ? least : even;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int map(struct block *b, struct err *e)
{
    b->fd = memfd_create("evenstep-block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (b->fd < 0 || ftruncate(b->fd, (off_t)b->bytes) < 0 ||
        fcntl(b->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        return err_errno(e, ERR_MEMORY, "cannot make the program's block of %zu bytes", b->bytes);
    }
    b->at = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (b->at == MAP_FAILED) {
        b->at = NULL;
        return err_errno(e, ERR_MEMORY, "cannot map the program's block of %zu bytes", b->bytes);
    }
    return 0;
}

int block_init(struct block *b, const struct network *net, size_t bucket_bytes, int slots,
               int64_t global_batch, bool copies, struct err *e)
{
    size_t least = least_floats(net, bucket_bytes), floats = net->n_params * sizeof(float), end = 0;
    *b = (struct block){.fd = -1, .slots = slots, .global_batch = global_batch};
    b->n_buckets = cut(net, least, NULL);
    size_t shared = take(&end, sizeof(*b->shared)), params = take(&end, floats),
           grads = take(&end, floats), stats = take(&end, net->n_stat_floats * sizeof(float)),
           wire = take(&end, (size_t)b->n_buckets * sizeof(*b->wire)),
           indices = take(&end, (size_t)slots * (size_t)global_batch * sizeof(*b->indices)),
           copy = copies ? take(&end, floats + net->n_stat_floats * sizeof(float)) : 0;
    b->bytes = end;
    b->buckets = calloc((size_t)b->n_buckets, sizeof(*b->buckets));
    int rc = b->buckets ? map(b, e) : err_set(e, ERR_MEMORY, "memory ran out");
    if (rc < 0) {
        block_release(b);
        return rc;
    }
    b->shared = (struct wire_shared *)(void *)(b->at + shared);
    block_begin(b);
    b->params = (float *)(void *)(b->at + params);
    b->grads = (float *)(void *)(b->at + grads);
    b->stats = (float *)(void *)(b->at + stats);
    b->wire = (struct wire_bucket *)(void *)(b->at + wire);
    b->indices = (int64_t *)(void *)(b->at + indices);
    b->copy = copies ? (float *)(void *)(b->at + copy) : NULL;
    cut(net, least, b->buckets);
    for (int i = 0; i < b->n_buckets; i++) {
        b->wire[i] =
            (struct wire_bucket){(int64_t)b->buckets[i].first, (int64_t)b->buckets[i].count};
    }
    return 0;
}

void block_begin(struct block *b)
{
    atomic_store(&b->shared->begun, -1);
    atomic_store(&b->shared->granted, -1);
    atomic_store(&b->shared->copied, -1);
}

void block_release(struct block *b)
{
    if (b->at) {
        munmap(b->at, b->bytes);
    }
    if (b->fd >= 0) {
        close(b->fd);
    }
    free(b->buckets);
    *b = (struct block){.fd = -1};
}

void block_describe(const struct block *b, const struct network *net, struct wire_message *m)
{
    m->welcome.global_batch = b->global_batch;
    m->welcome.block_bytes = (int64_t)b->bytes;
    m->welcome.params = (uint8_t *)b->params - b->at;
    m->welcome.grads = (uint8_t *)b->grads - b->at;
    m->welcome.stats = (uint8_t *)b->stats - b->at;
    m->welcome.buckets = (uint8_t *)b->wire - b->at;
    m->welcome.indices = (uint8_t *)b->indices - b->at;
    m->welcome.n_params = (int64_t)net->n_params;
    m->welcome.n_stats = (int64_t)net->n_stat_floats;
    m->welcome.n_buckets = b->n_buckets;
    m->welcome.slots = b->slots;
    m->flags |= b->copy ? WIRE_KEEP : 0;
}

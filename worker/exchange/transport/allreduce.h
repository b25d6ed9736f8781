/* All-reduce: the sum of a vector over a group of workers, in place or from a source that stays
 * unchanged. Works on any transport.
 *
 * Long vectors go round one ring with fixed chunks (ring.c), short ones use recursive doubling
 * (doubling.c). The order of additions depends on rank numbers and n alone, so every rank and every
 * transport gets the same bits (docs/semantics.md#equal-sums). All members of a group must start
 * its all-reduces in the same order.
 *
 *     allreduce_init ─► allreduce_start ─► comm_wait(&a->op) or allreduce_next_part … ─► start …
 */
#ifndef WORKER_EXCHANGE_ALLREDUCE_H
#define WORKER_EXCHANGE_ALLREDUCE_H

#include "worker/exchange/transport/comm.h"

struct device; /* kernels/device.h */

enum { ALLREDUCE_WINDOW = 4 };

struct allreduce {
    struct comm_op op;
    struct comm *comm; /* borrowed */
    enum comm_group group;

    /* Set by the caller, before it starts. */
    bool lent;   /* the caller reads the result at `sum`, and has finished with it before it starts
                    another sum in this group; all members do so */
    bool shares; /* others are under way at the same time, so it leaves room for them on a link */

    /* Of the sum under way. */
    float *data; /* [n] the caller's; the op uses it until it has ended */
    struct allreduce_source {
        const float
            *floats; /* [n] `data` begins with these, times `share`; NULL: `data` has this rank's
                        part already */
        size_t n;
        float share;
    } source;
    float *sum; /* once done: data, or where `lent` perhaps memory of the transport, read-only */
    size_t n;
    size_t light;   /* how many floats at the end are words: they cost nothing on a virtual link, as
                       a few words after a gradient cost nothing on a real one
                       (docs/semantics.md#agreement) */
    size_t hollow;  /* floats in front that cost time but do not exist (comm.h) */
    int mine, size; /* this rank's index among the members; how many there are */
    uint32_t serial;
    bool begun;
    int taken; /* parts that the caller has been given */
    struct transport_req ins[ALLREDUCE_WINDOW], outs[ALLREDUCE_WINDOW];
    union {
        struct ring_state {
            bool whole; /* the transport runs it as one event */
            int pieces; /* messages of a chunk */
            int window; /* how many messages may be under way at once in one direction */
            int ahead;  /* how many more may have been sent than received */
            int sent, sent_done, got, got_done; /* messages begun and ended, counted in their
                                                   order */
            size_t slot;                        /* floats of scratch for a piece to be added */
        } ring;
        struct doubling_state {
            int round;
            bool in_busy, out_busy; /* messages under way */
            bool adds;              /* what comes in is added; else it is the finished sum */
        } doubling;
    };

    /* Memory for what comes in; owned, taken at the first start and kept. */
    struct allreduce_scratch {
        float *floats;
        size_t most;        /* floats of the longest sum */
        struct device *dev; /* the device whose memory this and `data` are; NULL: the host's */
    } scratch;
};

void allreduce_init(struct allreduce *a, struct comm *c, enum comm_group group, size_t max_floats);
void allreduce_release(struct allreduce *a); /* one that was never initialised is allowed */
/* From now on `data` is in this device's memory, and the device adds. Other members need not do the
 * same, since messages and the order of additions do not change. Never with comm.native. Negative:
 * the device's memory ran out, and nothing has changed. */
int allreduce_place(struct allreduce *a, struct device *dev, struct err *e);
/* `data` is in this device's memory (allreduce_place), not the host's. */
bool allreduce_on_device(const struct allreduce *a);
void allreduce_start(struct allreduce *a, float *data, size_t n, size_t light);
/* The same where this rank's part is not in `data` yet: its first floats are `source`'s, times a
 * share. It reads them when they are first sent or added, without a pass of its own. The caller
 * leaves them unchanged until the op has ended. The sum has the same bits as if they had been in
 * `data`. Not on a device. */
void allreduce_start_from(struct allreduce *a, float *data, size_t n, size_t light,
                          const struct allreduce_source *source);
/* Cancels the sum if it is under way (comm_cancel). It may be started again, also with other
 * members. Afterwards `data` has neither the sum nor its former contents. Not with comm.native, nor
 * on a device. */
int allreduce_cancel(struct allreduce *a, struct err *e);
/* Waits for the next part of the sum: n floats of `data` from `first`, which may be read from then
 * on. Returns how many parts are left, this one included. When all have been given it waits for the
 * end and returns 0. Each rank gets the parts in an order of its own. */
int allreduce_next_part(struct allreduce *a, size_t *first, size_t *n, struct err *e);

#endif

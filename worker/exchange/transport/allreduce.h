/* All-reduce: the sum of a vector over a group of workers, in place, or of one that stays as it is.
 * Works on any transport.
 *
 * One ring with fixed chunks (ring.c), recursive doubling for short vectors (doubling.c): the order
 * of additions depends on rank numbers and n alone, so every rank and every transport gets the same
 * bits (docs/semantics.md#equal-sums). All-reduces of one group must be started in the same order
 * by all its members.
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
    bool lent;   /* the caller reads the sum at `sum` and is done with it before it begins another
                    one in this group, as all members */
    bool shares; /* others are under way at the same time, so it leaves them room on a link */

    /* Of the sum under way. */
    float *data; /* [n] the caller's; belongs to the op until it ended */
    struct allreduce_source {
        const float
            *floats; /* [n] of which `data` begins with `share` times; NULL: `data` has it */
        size_t n;
        float share;
    } source;
    float *sum; /* once done: data, or for a `lent` one perhaps memory of the transport, read-only
                  */
    size_t n;
    size_t light;   /* the last floats, which are words: on a virtual link they cost nothing, as a
                      few words after a gradient do on a real one (docs/semantics.md#agreement) */
    size_t hollow;  /* floats in front that cost time and do not exist (comm.h) */
    int mine, size; /* this rank's index among the members; how many there are */
    uint32_t serial;
    bool begun;
    int taken; /* parts that the caller has been given */
    struct transport_req ins[ALLREDUCE_WINDOW], outs[ALLREDUCE_WINDOW];
    union {
        struct ring_state {
            bool whole; /* the transport runs it as one event */
            int pieces; /* messages of a chunk */
            int window; /* how many may be under way at once in one direction */
            int ahead;  /* how many more may have been sent than received */
            int sent, sent_done, got, got_done; /* begun and ended, in the order of messages */
            size_t slot;                        /* floats of scratch for a piece that is added */
        } ring;
        struct doubling_state {
            int round;
            bool in_busy, out_busy; /* messages under way */
            bool adds;              /* what comes in is added, else it is the sum */
        } doubling;
    };

    /* Memory for what comes in; owned, taken at the first start and kept. */
    struct allreduce_scratch {
        float *floats;
        size_t most;        /* floats of the longest sum */
        struct device *dev; /* whose memory this and `data` are; NULL: the host's */
    } scratch;
};

void allreduce_init(struct allreduce *a, struct comm *c, enum comm_group group, size_t max_floats);
void allreduce_release(struct allreduce *a); /* one that was never initialised is allowed */
/* From now on `data` is in the memory of this device, which adds it. Other members need not do the
 * same: messages and the order of additions do not change. Never with comm.native. Negative: it has
 * no memory for it, and nothing has changed. */
int allreduce_place(struct allreduce *a, struct device *dev, struct err *e);
/* `data` is in this device's memory (allreduce_place), not the host's. */
bool allreduce_on_device(const struct allreduce *a);
void allreduce_start(struct allreduce *a, float *data, size_t n, size_t light);
/* The same where this rank's part is not in `data` yet: its first floats are `source`'s, times a
 * share. They are read as they are first sent or added to, so no pass over them is made for it; the
 * caller leaves them as they are until the op has ended. The same bits as if they had been there.
 * Not on a device. */
void allreduce_start_from(struct allreduce *a, float *data, size_t n, size_t light,
                          const struct allreduce_source *source);
/* Gives up the sum, if it is under way (comm_cancel); it may be started again, by other members
 * too. `data` has neither the sum nor what it was. Not with comm.native, nor on a device. */
int allreduce_cancel(struct allreduce *a, struct err *e);
/* Waits for the next part of the sum, n floats of `data` from `first`, which may be read from then
 * on, and returns how many parts there are from this one on; when all have been given it waits for
 * the end, and returns 0. Each rank has an order of its own. */
int allreduce_next_part(struct allreduce *a, size_t *first, size_t *n, struct err *e);

#endif

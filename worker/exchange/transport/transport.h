/* Transport: how bytes go from rank to rank. Two implementations: comm_mpi.c (Open MPI) and
 * simulator/comm_sim.c (virtual clock). Everything above it (collectives, comm, strategies,
 * trainer) is the same code in both.
 *
 * A comm_op is a small state machine: step() is called until it says it is done. Over MPI the
 * communication thread calls it between sleeps; in the simulator the scheduler calls it when a
 * message of that rank arrives. No call here blocks except wait().
 */
#ifndef WORKER_EXCHANGE_TRANSPORT_H
#define WORKER_EXCHANGE_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct transport;

enum {
    TRANSPORT_ANY = -1,
    TRANSPORT_CONTROL = 1 << 20, /* bit of the tag of a header: on a virtual link its few words cost
                                    the latency alone */
    TRANSPORT_LENT = 1 << 21,    /* bit of a message's tag: the sender leaves the message unchanged
                                 until the receiver has answered, so it may be read in place */
};

/* What step(), test() and wait() return when nothing failed. */
enum { COMM_UNDER_WAY = 0, COMM_DONE = 1 };

struct transport_req { /* One message under way. The storage is the caller's; the transport uses it
                          until test() says done. */
    int from;          /* of a receive, once done */
    size_t bytes;      /* of a receive, once done */
    void *at; /* of a receive, once done: where its bytes are. A lent message may stay in the
                 sender's memory */
    uint64_t impl[6];
};

struct comm_op {
    /* COMM_DONE, COMM_UNDER_WAY, or negative: failed (err says why). Runs on the communication
     * thread. */
    int (*step)(struct comm_op *op, struct transport *t);
    atomic_int state;         /* as step() returned; read it through comm_test or comm_wait */
    atomic_int parts;         /* parts that have come; step() counts them */
    atomic_bool cancelled;    /* step() ends it as soon as it can (comm_cancel) */
    double cancelled_at;      /* transport time at which step() began to end it; 0: not yet */
    bool torn;                /* it was cancelled, but a message may still be written to its memory,
                              which must stay */
    int wanted;               /* parts that a caller waits for; used by the transport */
    double started, finished; /* transport time */
    struct comm_op *next;     /* the transport's queue */
    struct err err;           /* last, as it is large and seldom touched */
};

/* An all-reduce round a ring, as a transport sees it. `hollow` floats come first: they cost time
 * but do not exist (comm.h). data[n] follows; its last `light` floats cost no time. */
struct transport_ring {
    const int *members; /* [size] ranks */
    int size, mine, tag;
    float *data;
    size_t n, hollow, light;
    float **sum; /* NULL: the sum goes into data. Else *sum may point elsewhere, if all members
                    allow it; it is valid until they begin the next sum */
};

struct transport_ops {
    int (*rank)(struct transport *t);
    int (*size)(struct transport *t);                   /* ranks, servers and keeper included */
    const char *(*host)(struct transport *t, int rank); /* ranks with the same name share memory */
    int (*send)(struct transport *t, int to, int tag, const void *data, size_t bytes,
                struct transport_req *r);
    /* A message larger than `bytes` fails with ERR_CONFLICT. Messages with the same sender and tag
     * arrive in order. */
    int (*recv)(struct transport *t, int from, int tag, void *data, size_t bytes,
                struct transport_req *r);
    /* COMM_DONE, COMM_UNDER_WAY, or negative. */
    int (*test)(struct transport *t, struct transport_req *r);
    /* Asks a receive to end. If no message has matched it, test() says done from then on. */
    int (*cancel)(struct transport *t, struct transport_req *r);
    /* The caller does not test `r` again, whatever happens to its message. NULL where no worker can
     * be lost. */
    void (*forget)(struct transport *t, struct transport_req *r);
    double (*now)(struct transport *t); /* seconds, monotonic or virtual */
    void (*start)(struct transport *t,
                  struct comm_op *op); /* runs op in the background; op stays the caller's */
    /* Blocks the caller until `parts` of the op have come, the op has ended, or `deadline` (in the
     * time of now(); 0: none) has passed. Where time is virtual, parts do not end the wait. Returns
     * COMM_DONE, COMM_UNDER_WAY at the deadline, or negative. */
    int (*wait)(struct transport *t, struct comm_op *op, int parts, double deadline);
    /* After it returns, no operation under way is touched, and starting one fails. A rank that
     * failed calls it before it frees the memory of its operations. An operation that fails has the
     * same effect. NULL where no thread runs operations. */
    void (*abandon)(struct transport *t);
    /* Lets in a newcomer that waits for the seat of a dead worker. seats[rank] is how often that
     * rank has been started again, this time included; 0: nobody may take its seat. From then on
     * messages to and from that rank are the newcomer's. Returns the rank, or a negative number
     * where nobody waits. This call and the next two may come from any thread; all three are NULL
     * where no worker can join. */
    int (*admit)(struct transport *t, const int *seats, int workers);
    /* Newcomers may wait here from now on. */
    void (*open_door)(struct transport *t);
    /* Connects a newcomer to the door of this rank, which is to admit it. From then on messages to
     * and from that rank are under way. ERR_PEER: no door was open within `seconds`. */
    int (*reach)(struct transport *t, int rank, double seconds, struct err *e);
    /* Says that `share` (0..1) of this step's computing for `count` samples is done. It sleeps on a
     * node with an emulated slowdown, advances virtual time in the simulator, and else does
     * nothing. */
    void (*pace)(struct transport *t, double share, int count);
    /* Can it send from a GPU's memory and receive into it? NULL: no. */
    bool (*device_memory)(struct transport *t);
    /* Starts the library's own in-place sum of n floats over all workers; test(r) says when it is
     * done. All workers start their sums in the same order. NULL where the library has none. */
    int (*native_sum)(struct transport *t, float *data, size_t n, struct transport_req *r);
    /* Runs a whole ring as one event, if the transport can compute when it ends without passing its
     * messages. The sum is made in place, in the order of the messages. Returns 0, and test(r) says
     * when it is done; negative: the messages must be passed. NULL where time is real. */
    int (*ring)(struct transport *t, const struct transport_ring *ring, struct transport_req *r);
    /* The next message counts as `bytes` more, or fewer, than it has. NULL where time is real.
     */
    void (*weigh)(struct transport *t, int64_t bytes);
};

struct transport {
    const struct transport_ops *ops;
};

#endif

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
    TRANSPORT_CONTROL = 1 << 20, /* or-ed to the tag of a header: a few words that cost a virtual
                                    link its latency alone */
    TRANSPORT_LENT = 1 << 21, /* of a message that its sender leaves as it is until the receiver has
                                 answered it: may be read in place */
};

/* What steps, tests and waits return when nothing failed. */
enum { COMM_UNDER_WAY = 0, COMM_DONE = 1 };

struct transport_req { /* one message under way; the caller's storage, used by the transport until
                          it tests done */
    int from;          /* of a receive, once done */
    size_t bytes;      /* of a receive, once done */
    void *at; /* of a receive, once done, where its bytes are: in the room it was given; of a lent
                 one perhaps with the sender */
    uint64_t impl[6];
};

struct comm_op {
    /* COMM_DONE, COMM_UNDER_WAY, or negative: failed (err says why). Runs on the communication
     * thread. */
    int (*step)(struct comm_op *op, struct transport *t);
    atomic_int state;      /* as step() returned; read it through comm_test or comm_wait */
    atomic_int parts;      /* of what comes in parts, how many have come; step() counts them */
    atomic_bool cancelled; /* step() ends it as soon as it can (comm_cancel) */
    double cancelled_at;   /* when step() began to; 0: it did not */
    bool torn;             /* cancelled, and a message into its memory may still come: that stays */
    int wanted;            /* parts that somebody waits for; the transport's */
    double started, finished; /* transport time */
    struct comm_op *next;     /* the transport's queue */
    struct err err;           /* last, as it is large and seldom touched */
};

/* An all-reduce round a ring, as a transport sees it: `hollow` floats that cost time but do not
 * exist (comm.h), then data[n], of which the last `light` cost none. */
struct transport_ring {
    const int *members; /* [size] ranks */
    int size, mine, tag;
    float *data;
    size_t n, hollow, light;
    float **sum; /* NULL: the sum goes into data. Else it may stand elsewhere, if all members take
                    it so: until they begin the next one */
};

struct transport_ops {
    int (*rank)(struct transport *t);
    int (*size)(struct transport *t);                   /* ranks, servers and keeper included */
    const char *(*host)(struct transport *t, int rank); /* ranks with one name share memory */
    int (*send)(struct transport *t, int to, int tag, const void *data, size_t bytes,
                struct transport_req *r);
    /* A message larger than `bytes` is an error, ERR_CONFLICT. Messages of one sender and tag
     * arrive in order. */
    int (*recv)(struct transport *t, int from, int tag, void *data, size_t bytes,
                struct transport_req *r);
    /* COMM_DONE, COMM_UNDER_WAY, or negative. */
    int (*test)(struct transport *t, struct transport_req *r);
    /* Asks a receive to end: one that no message has matched tests done from then on. */
    int (*cancel)(struct transport *t, struct transport_req *r);
    /* `r` is not tested any more, whatever becomes of its message. NULL where nobody is lost. */
    void (*forget)(struct transport *t, struct transport_req *r);
    double (*now)(struct transport *t); /* seconds, monotonic or virtual */
    void (*start)(struct transport *t,
                  struct comm_op *op); /* runs op in the background; op stays the caller's */
    /* Blocks the caller until `parts` of the op have come (or, where time is virtual, until it
     * ended), it ended, or `deadline` (of now(); 0: none) passed: COMM_DONE, COMM_UNDER_WAY at the
     * deadline, or negative. */
    int (*wait)(struct transport *t, struct comm_op *op, int parts, double deadline);
    /* Once this returns nothing that is under way is touched any more, and whatever is started
     * fails: for a rank that failed, before it frees or leaves what its operations point to. An
     * operation that fails does the same. NULL where no thread runs them. */
    void (*abandon)(struct transport *t);
    /* Lets in who waits for the seat of a worker that died: seats[rank] is how often that one was
     * taken again, this time included; 0: nobody may take it. Messages to and from that rank are
     * those of the newcomer from then on. The rank; or negative: nobody waits. Any thread, as the
     * two below. NULL where no worker can join, as they are. */
    int (*admit)(struct transport *t, const int *seats, int workers);
    /* Newcomers may wait here from now on. */
    void (*open_door)(struct transport *t);
    /* Of a newcomer: waits at the door of this rank, which is to admit it. Messages to and from
     * that rank are under way from then on. ERR_PEER: no door was open for so many seconds. */
    int (*reach)(struct transport *t, int rank, double seconds, struct err *e);
    /* Marks that `share` (0..1) of this step's computing for `count` samples is done: sleeps on a
     * node with an emulated slowdown, advances virtual time in the simulator, else nothing. */
    void (*pace)(struct transport *t, double share, int count);
    /* It sends from, and receives into, memory of a GPU. NULL: it does not. */
    bool (*device_memory)(struct transport *t);
    /* Starts the library's own sum of n floats over all workers, in place; `r` tests done. All
     * workers start theirs in the same order. NULL where there is none. */
    int (*native_sum)(struct transport *t, float *data, size_t n, struct transport_req *r);
    /* Sums round the whole ring as one event, in place and in the order of its messages, where the
     * transport can tell its end without passing them: 0, and `r` tests done; negative: the
     * messages have to be passed. NULL where time is real. */
    int (*ring)(struct transport *t, const struct transport_ring *ring, struct transport_req *r);
    /* The next message that is sent counts as so many bytes more, or less. NULL where time is real.
     */
    void (*weigh)(struct transport *t, int64_t bytes);
};

struct transport {
    const struct transport_ops *ops;
};

#endif

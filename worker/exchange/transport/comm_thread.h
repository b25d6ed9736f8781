/* The communication thread of a rank: it steps the operations of a transport (transport.h) and
 * makes every call of the library below it, while other threads start operations and wait for them.
 * It never blocks in the library: between polls it spins, yields, sleeps, or waits for sockets.
 * Inside worker/exchange/transport only. */
#ifndef WORKER_EXCHANGE_COMM_THREAD_H
#define WORKER_EXCHANGE_COMM_THREAD_H

#include <pthread.h>

#include "worker/exchange/transport/mpi_sockets.h"
#include "worker/exchange/transport/transport.h"

struct comm_thread {
    struct transport *transport; /* whose operations it steps; borrowed */
    int rank;
    pthread_t thread;
    pthread_mutex_t lock;   /* guards queue, stopping, abandoned, why, dozing */
    pthread_cond_t arrived; /* the queue is no longer empty, or stopping, or abandoned */
    pthread_cond_t ended;   /* an operation ended, or a part of one came, or the thread ended */
    struct comm_op *queue;  /* not yet seen by the thread */
    bool stopping, abandoned;
    struct err why; /* it is abandoned, if an operation failed */
    _Atomic bool gone;
    _Atomic double turn;    /* when the thread last went round */
    _Atomic double longest; /* that this took, in seconds, waits apart */
    bool alone;             /* no other rank is on this host, and sockets can be waited for */
    bool dozing;            /* it waits for sockets */
    _Atomic bool polls;     /* others than these bring messages, so that it does not */
    struct mpi_sockets sockets;
    /* the thread's own */
    bool moved;       /* a message got through since the last check */
    int vain;         /* waits in a row that ended with a socket and brought no message */
    double hot_until; /* large messages that were posted may be under way until then */
};

/* alone: no other rank is on this host. */
int comm_thread_start(struct comm_thread *c, struct transport *t, int rank, bool alone,
                      struct err *e);
/* Finishes the operations under way, then ends the thread. */
void comm_thread_stop(struct comm_thread *c);

/* transport_ops.start, .wait and .abandon. Any thread. */
void comm_thread_submit(struct comm_thread *c, struct comm_op *op);
int comm_thread_wait(struct comm_thread *c, struct comm_op *op, int parts, double deadline);
void comm_thread_abandon(struct comm_thread *c);
/* From now on messages come by other ways than the library's sockets, too. Any thread. */
void comm_thread_poll(struct comm_thread *c);
/* Seconds since it last went round. Any thread. */
double comm_thread_age(const struct comm_thread *c);
/* Is that long, beside what it took before? Any thread. */
bool comm_thread_hangs(const struct comm_thread *c);

/* For the transport's operations, which this thread calls: a message came through; one of so many
 * bytes was posted. */
void comm_thread_moved(struct comm_thread *c);
void comm_thread_expect(struct comm_thread *c, size_t bytes);

#endif

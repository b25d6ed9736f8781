/* The communication thread of a rank. It steps the operations of a transport (transport.h) and
 * makes every call of the library below. Other threads start operations and wait for them. It never
 * blocks in the library: between polls it spins, yields, sleeps, or waits for sockets. Used inside
 * worker/exchange/transport only. */
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
    pthread_cond_t arrived; /* signalled when the queue gets an operation, or at stopping or
                               abandoned */
    pthread_cond_t ended;   /* signalled when an operation ends, a part comes, or the thread ends */
    struct comm_op *queue;  /* not yet seen by the thread */
    bool stopping, abandoned;
    struct err why; /* the error of the operation that failed, if that is why it is abandoned */
    _Atomic bool gone;
    _Atomic double turn;    /* when its last turn ended */
    _Atomic double longest; /* seconds of its longest turn, without waits */
    bool alone;             /* no other rank is on this host, and sockets can be waited for */
    bool dozing;            /* it waits for sockets */
    _Atomic bool polls;     /* messages come by other ways too, so it does not wait for sockets */
    struct mpi_sockets sockets;
    /* Used by the thread alone. */
    bool moved;       /* a message has come or gone since the last check */
    int vain;         /* waits in a row that ended with a socket and brought no message */
    double hot_until; /* the time until which posted large messages may be under way */
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
/* Says that from now on messages come by other ways too, not only by the library's sockets. Any
 * thread. */
void comm_thread_poll(struct comm_thread *c);
/* Seconds since its last turn. Any thread. */
double comm_thread_age(const struct comm_thread *c);
/* Is that long, compared with its longest turn? Any thread. */
bool comm_thread_hangs(const struct comm_thread *c);

/* The transport's operations, which this thread calls, tell it that a message has come or gone, and
 * that one of `bytes` was posted. */
void comm_thread_moved(struct comm_thread *c);
void comm_thread_expect(struct comm_thread *c, size_t bytes);

#endif

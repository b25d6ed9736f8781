/* What the files of the transport over Open MPI share. comm_mpi.c opens and closes it;
 * mpi_messages.c has its messages. */
#ifndef WORKER_EXCHANGE_COMM_MPI_PARTS_H
#define WORKER_EXCHANGE_COMM_MPI_PARTS_H

#include <mpi.h>
#include <stdbool.h>

#include "worker/exchange/transport/comm_thread.h"
#include "worker/exchange/transport/mpi_expected.h"
#include "worker/exchange/transport/seat_links.h"

struct comm_mpi {
    struct transport base;
    MPI_Comm comm, workers; /* workers: for MPI's own sums, or MPI_COMM_NULL */
    int rank, size, keeper;
    int seat;          /* 0: MPI started this rank */
    char (*hosts)[64]; /* [size] owned */
    bool alone;        /* no other rank is on this host */
    struct mpi_expected expected;
    struct comm_thread thread;
    struct seat_links seats; /* links to ranks that are reached without MPI */
    double slow_fixed, slow_per_sample, step_start;
};

/* A newcomer has only links. */
static inline bool has_mpi(const struct comm_mpi *m)
{
    return m->comm != MPI_COMM_NULL;
}

/* See transport_ops. Only the communication thread calls them. */
int comm_mpi_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                  struct transport_req *r);
int comm_mpi_recv(struct transport *t, int from, int tag, void *data, size_t bytes,
                  struct transport_req *r);
int comm_mpi_test(struct transport *t, struct transport_req *r);
int comm_mpi_cancel(struct transport *t, struct transport_req *r);
void comm_mpi_forget(struct transport *t, struct transport_req *r);

#endif

/* Receives over MPI that begin once their message has come, so that it is known to fit.
 *
 * Open MPI 4.1 reports a message that is longer than the receiver's buffer. But where one rank
 * copies from another's memory, it has copied the whole message by then. So ranks of one host that
 * disagree about a length would write past the buffer (docs/decisions/0111). */
#ifndef WORKER_EXCHANGE_MPI_EXPECTED_H
#define WORKER_EXCHANGE_MPI_EXPECTED_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct expected_message {
    uint64_t number;
    int from, tag;
};

struct mpi_expected {              /* zero: nothing is expected */
    struct expected_message *list; /* [n] of ascending numbers; owned */
    int n, room;
    uint64_t numbers;
};

void mpi_expected_release(struct mpi_expected *x);
/* Expects a message from this rank (MPI_ANY_SOURCE: any) with this tag. Returns its number, which
 * is > 0; 0: memory ran out. */
uint64_t mpi_expected_add(struct mpi_expected *x, int from, int tag);
/* Has the message come, and could no earlier expectation claim it? Then it is no longer expected,
 * *req receives it into at[room], and the call returns COMM_DONE. COMM_UNDER_WAY: not yet.
 * ERR_CONFLICT: the message is longer than `room`. ERR_PEER: MPI failed. */
int mpi_expected_take(struct mpi_expected *x, uint64_t number, MPI_Comm comm, void *at, size_t room,
                      MPI_Request *req);
void mpi_expected_drop(struct mpi_expected *x, uint64_t number);

#endif

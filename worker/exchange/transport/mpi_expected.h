/* Receives over MPI that begin once their message has come, and so is known to fit.
 *
 * Open MPI 4.1 tells whoever receives a message that is longer than its room. But where one rank
 * copies from another's memory, it has copied all of it by then: ranks of one host that disagree
 * about a length would write over what lies behind (docs/decisions/0111). */
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
/* A message of this rank (MPI_ANY_SOURCE: of any) and tag; its number, which is > 0. 0: memory ran
 * out. */
uint64_t mpi_expected_add(struct mpi_expected *x, int from, int tag);
/* Has it come, and is no other one expected before it that it may be as well? Then it is expected
 * no more, and *req receives it into at[room]: COMM_DONE; COMM_UNDER_WAY: not yet.
 * ERR_CONFLICT: it is longer; ERR_PEER: MPI failed. */
int mpi_expected_take(struct mpi_expected *x, uint64_t number, MPI_Comm comm, void *at, size_t room,
                      MPI_Request *req);
void mpi_expected_drop(struct mpi_expected *x, uint64_t number);

#endif

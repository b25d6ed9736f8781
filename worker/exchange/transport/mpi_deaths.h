/* Makes Open MPI ignore the death of a peer's process.
 *
 * Left to itself, its TCP transport closes the connection. If a message to that peer was not sent
 * as a whole, it ends this process too, or loops for ever in its event loop (docs/decisions/0104).
 * The library need not know of the death: the coordinator says who is lost, and comm_cancel() ends
 * the messages to and from it. */
#ifndef WORKER_EXCHANGE_MPI_DEATHS_H
#define WORKER_EXCHANGE_MPI_DEATHS_H

/* Holds from now on in this process. */
void mpi_deaths_outlive(void);

#endif

/* What Open MPI makes of a peer whose process dies: nothing, once this is asked for.
 *
 * Left to itself, its TCP transport closes that connection, and where a message to that peer has
 * not been sent as a whole it ends this process, too, or turns for ever in its event loop
 * (docs/decisions/0104). Who is lost the coordinator says, and messages to and from it are given up
 * (comm_cancel), so the library need not know. */
#ifndef WORKER_EXCHANGE_MPI_DEATHS_H
#define WORKER_EXCHANGE_MPI_DEATHS_H

/* From now on, in this process. */
void mpi_deaths_outlive(void);

#endif

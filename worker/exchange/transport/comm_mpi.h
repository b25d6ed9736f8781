/* Transport over Open MPI: the only code besides worker/process/process.c that includes mpi.h. Its
 * communication thread owns all MPI traffic and never blocks in MPI: non-blocking point-to-point,
 * MPI_Test, 20 to 200 microseconds of sleep between polls once a short spin found nothing; where
 * all peers are reached over TCP, until a socket has something. */
#ifndef WORKER_EXCHANGE_COMM_MPI_H
#define WORKER_EXCHANGE_COMM_MPI_H

#include "worker/exchange/transport/seat_far.h"
#include "worker/exchange/transport/transport.h"

/* After MPI_Init_thread(MULTIPLE). Duplicates MPI_COMM_WORLD and starts the thread. */
struct transport *comm_mpi_open(struct err *e);
/* Settings of the library that our way of polling needs, where the user gave none; before MPI_Init.
 */
void comm_mpi_prepare(void);
/* Lets no rank wait for others in MPI_Finalize, since a rank that died never calls it; before
 * MPI_Init. */
void comm_mpi_end_alone(void);
void comm_mpi_close(struct transport *t);
/* Without MPI: for a worker that takes the seat of one that died. It reaches nobody but the keeper,
 * rank `workers` of size ranks, once comm_mpi_join() has returned, and then whom it asks for
 * (transport_ops.reach). `user`: the keeper's. */
struct transport *comm_mpi_open_seat(int rank, int seat, int workers, int size, struct err *e);
int comm_mpi_join(struct transport *t, unsigned user, struct err *e);
/* What names the doors of the attempt's ranks (of this host), at which such workers wait, and the
 * user that they may be besides our own. */
void comm_mpi_name_doors(struct transport *t, const char *attempt, unsigned user);
/* Of an attempt on several hosts, after comm_mpi_name_doors(): the doors are ports. */
void comm_mpi_spread_doors(struct transport *t, const struct seat_far *far);
/* Of such an attempt's ranks, the key that they have in common, once it is known. */
void comm_mpi_lend_key(struct transport *t, const struct sign_key *among);
/* Where MPI does not tell: ranks with one name are on one host. */
void comm_mpi_name_host(struct transport *t, int rank, const char *host);
/* Has this rank come by a door, and is it there? */
bool comm_mpi_has_joined(const struct transport *t, int rank);
/* Sums over the workers (ranks 0 to workers-1) may be MPI's own from now on (comm.native). Every
 * rank calls it, before anything is under way. */
int comm_mpi_use_native(struct transport *t, int workers, struct err *e);
/* This node is emulated as slower: a step over b samples lasts at least fixed_seconds +
 * b*seconds_per_sample of wall time from step start (comm_mpi_step_begin), spread by pace(share).
 * 0, 0: no slowdown. */
void comm_mpi_set_slowdown(struct transport *t, double fixed_seconds, double seconds_per_sample);
void comm_mpi_step_begin(struct transport *t);
/* Age in seconds of the communication thread's last turn (heartbeat). */
double comm_mpi_thread_age(struct transport *t);
/* Does that thread not return from a call? */
bool comm_mpi_thread_hangs(struct transport *t);

#endif

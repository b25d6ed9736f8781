/* Transport over Open MPI: the only code besides worker/process/process.c that includes mpi.h. Its
 * communication thread owns all MPI traffic and never blocks in MPI. It uses non-blocking
 * point-to-point messages and MPI_Test, and after a short spin it sleeps 20 to 200 microseconds
 * between polls. Where all peers are reached over TCP, it sleeps until a socket has data. */
#ifndef WORKER_EXCHANGE_COMM_MPI_H
#define WORKER_EXCHANGE_COMM_MPI_H

#include "worker/exchange/transport/seat_far.h"
#include "worker/exchange/transport/transport.h"

/* After MPI_Init_thread(MULTIPLE). Duplicates MPI_COMM_WORLD and starts the thread. */
struct transport *comm_mpi_open(struct err *e);
/* Sets what our polling needs of the library, where the user has not set it. Call it before
 * MPI_Init.
 */
void comm_mpi_prepare(void);
/* Makes MPI_Finalize wait for no other rank, since a rank that died never calls it. Call it before
 * MPI_Init. */
void comm_mpi_end_alone(void);
void comm_mpi_close(struct transport *t);
/* Opens the transport without MPI, for a newcomer that takes the seat of a dead worker. After
 * comm_mpi_join() it reaches the keeper, rank `workers` of `size` ranks; it reaches other ranks
 * after transport_ops.reach. `user`: the keeper's. */
struct transport *comm_mpi_open_seat(int rank, int seat, int workers, int size, struct err *e);
int comm_mpi_join(struct transport *t, unsigned user, struct err *e);
/* Names the doors of the attempt's ranks on this host, at which newcomers wait. `user` may enter
 * besides our own. */
void comm_mpi_name_doors(struct transport *t, const char *attempt, unsigned user);
/* Makes the doors ports, for an attempt on several hosts. Call it after comm_mpi_name_doors(). */
void comm_mpi_spread_doors(struct transport *t, const struct seat_far *far);
/* Gives the key that the ranks of such an attempt have in common, once it is known. */
void comm_mpi_lend_key(struct transport *t, const struct sign_key *among);
/* Names a rank's host where MPI does not tell it. Ranks with the same name are on the same host. */
void comm_mpi_name_host(struct transport *t, int rank, const char *host);
/* Has this rank joined by a door, and is its link still open? */
bool comm_mpi_has_joined(const struct transport *t, int rank);
/* Prepares MPI's own sums over the workers, ranks 0 to workers-1 (comm.native). Every rank calls it
 * before anything is under way. */
int comm_mpi_use_native(struct transport *t, int workers, struct err *e);
/* Emulates a slower node. A step over b samples lasts at least fixed_seconds + b*seconds_per_sample
 * of wall time from comm_mpi_step_begin(); pace(share) spreads the wait. 0, 0: no slowdown. */
void comm_mpi_set_slowdown(struct transport *t, double fixed_seconds, double seconds_per_sample);
void comm_mpi_step_begin(struct transport *t);
/* Age in seconds of the communication thread's last turn (heartbeat). */
double comm_mpi_thread_age(struct transport *t);
/* Does that thread hang in a call? */
bool comm_mpi_thread_hangs(struct transport *t);

#endif

/* Transport on a virtual clock. A world holds all ranks of one job: W workers, then keeper and
 * servers. Each rank runs in a fiber; events are ordered by (virtual time, rank, order of
 * creation), so a run depends on nothing but its inputs.
 *
 *   pace(share)  ──► the rank's clock moves to step start + share * (a + k*b) * jitter
 *   send         ──► the message arrives after latency + bytes/bandwidth; to or from a server it
 *                    has a fair share of the server's link
 *   wait         ──► the fiber yields until its operation is done
 */
#ifndef SIMULATOR_COMM_SIM_H
#define SIMULATOR_COMM_SIM_H

#include "job/spec/cluster.h"
#include "worker/exchange/transport/transport.h"

struct world;

/* `cluster` is borrowed. workers <= cluster->n_nodes; rank i is the i-th node. */
struct world *world_new(const struct cluster *cluster, int workers, int servers, struct err *e);
void world_free(struct world *w);
struct transport *world_transport(struct world *w, int rank);
/* Sets the function that this rank runs; called once per rank before world_run. */
int world_set(struct world *w, int rank, void (*fn)(void *arg), void *arg, struct err *e);
/* Runs until every rank has ended. A deadlock (no rank can go on) is an error that names the ranks
 * that wait. */
int world_run(struct world *w, struct err *e);
int64_t world_events(const struct world *w);
/* Begins a step of this rank's worker: draws its jitter. */
void world_step_begin(struct world *w, int rank);
/* Messages that this rank sends cost nothing while set (start, evaluation, checkpoints). All ranks
 * begin so. */
void world_set_free(struct world *w, int rank, bool is_free);

#endif

/* One rank's process from MPI's start to its end: telemetry, samples or a user's program, device,
 * then the trainer (ranks 0 to W-1) or the keeper and servers (rank W and up), and the outcome.
 */
#ifndef WORKER_PROCESS_PROCESS_H
#define WORKER_PROCESS_PROCESS_H

#include "worker/config.h"

/* Runs the rank that mpirun made of this process, by the attempt's plan in `c`. 0 when the rank has
 * done its part. Negative: this MPI cannot be used, or a worker that was started again has failed,
 * whose guard tells. Any other error is told to the store (or the log) and ends all ranks by
 * MPI_Abort, so it does not return. */
int process_run(struct worker_config *c, struct err *e);

#endif

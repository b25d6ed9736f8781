/* One rank's process from MPI's start to its end: telemetry, samples or a user's program, device,
 * then the trainer (ranks 0 to W-1) or the keeper and servers (rank W and up), and the outcome.
 */
#ifndef WORKER_PROCESS_PROCESS_H
#define WORKER_PROCESS_PROCESS_H

#include "worker/config.h"

/* Runs this process's rank by the attempt's plan in `c`. 0 when the rank has done its part.
 * Negative: this MPI cannot be used, or a worker that was started again has failed, which its guard
 * reports. Any other error is reported to the store (or the log) and ends all ranks by MPI_Abort,
 * so the function does not return. */
int process_run(struct worker_config *c, struct err *e);

#endif

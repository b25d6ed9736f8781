/* Attempts that ran when the coordinator died: they are adopted, or ended. */
#ifndef COORDINATOR_TURN_RECOVER_H
#define COORDINATOR_TURN_RECOVER_H

#include "coordinator/turn/attempts.h"

/* Takes every job that the store says is launching, running, pausing or cancelling and that this
 * scheduler does not have, and gives back claims of jobs that have ended. Called by the scheduler
 * at its start and every few seconds. Negative: the store is away. */
int recover_jobs(struct attempts *a, double now, struct err *e);

#endif

/* How a queued job's next attempt starts: see launch.c. */
#ifndef COORDINATOR_TURN_QUEUE_LAUNCH_H
#define COORDINATOR_TURN_QUEUE_LAUNCH_H

#include "coordinator/planning/placement.h"
#include "coordinator/turn/attempts.h"

/* Starts the queued job's next attempt on a placement. Takes the spec over. 0, or negative: the job
 * is still queued or failed. */
int launch_job(struct attempts *a, const char *job, struct jobspec *spec,
               const struct placement *placement, double now, struct err *e);
/* A turn of each launch that has not come to its process yet. */
void launch_go_on(struct attempts *a, double now);

#endif

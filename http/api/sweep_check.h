/* Checks whether the jobs of a sweep would be accepted: every trial's spec is checked like a
 * job's. */
#ifndef HTTP_API_SWEEP_CHECK_H
#define HTTP_API_SWEEP_CHECK_H

#include "job/sweep/sweep.h"

struct request;

/* Reports into q->problems, each problem once. A mistake that comes from a setting is reported at
 * its parameter, /parameters/0, every other one in /spec. */
void sweep_check(struct request *q, const struct sweep *sweep);

#endif

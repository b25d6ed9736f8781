/* Would the jobs of a sweep be accepted? Every trial's spec is checked as a job's is. */
#ifndef HTTP_API_SWEEP_CHECK_H
#define HTTP_API_SWEEP_CHECK_H

#include "job/sweep/sweep.h"

struct request;

/* Reports into q->problems, each once: a mistake that a setting makes stands at its parameter,
 * /parameters/0, every other one in /spec. */
void sweep_check(struct request *q, const struct sweep *sweep);

#endif

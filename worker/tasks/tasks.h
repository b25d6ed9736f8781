/* What evenstep-worker does without MPI and store: it checks, evaluates or exports something,
 * prints JSON on standard output, and ends. */
#ifndef WORKER_TASKS_TASKS_H
#define WORKER_TASKS_TASKS_H

#include "worker/config.h"

/* Is this mode such a task? */
bool tasks_has(enum worker_mode mode);
/* Runs it. Negative: it failed; it has printed an answer that says so, if it could. */
int tasks_run(const struct worker_config *c, struct err *e);

#endif

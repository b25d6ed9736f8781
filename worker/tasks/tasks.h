/* What evenstep-worker does without MPI and store: it checks, evaluates or exports, prints JSON on
 * standard output, and ends. */
#ifndef WORKER_TASKS_TASKS_H
#define WORKER_TASKS_TASKS_H

#include "worker/config.h"

/* Is this mode such a task? */
bool tasks_has(enum worker_mode mode);
/* Runs it. Negative: it failed; an answer that says so has been printed where it could be. */
int tasks_run(const struct worker_config *c, struct err *e);

#endif

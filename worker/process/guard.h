/* The guard of a worker's process (docs/decisions/0020): its parent, which tells the store when the
 * worker dies, and keeps that death from mpirun, which would end all other ranks.
 *
 *      mpirun or its daemon ─► guard ─► worker        one pair per worker of a job that may outlive
 *                               │         ╳           one (plan_outlives_worker)
 *                               └─► fact "lost" ─► monitor ─► control ─► the others go on without
 *
 * The kernel tells a parent at once, however the worker died and whatever host it is on. A worker
 * that ends by itself, well or with an error, ends its guard with the same exit code.
 */
#ifndef WORKER_PROCESS_GUARD_H
#define WORKER_PROCESS_GUARD_H

#include "worker/config.h"

/* Before MPI and before any thread. Forks, if this rank is to have a guard: returns in the worker
 * alone, whose environment is the same. argv: of main(), which the guard overwrites, so that
 * whoever looks for the rank's process finds one: nothing of `c` may point there. Returns once more
 * in each worker that is started again, with c->seat. */
int guard_begin(struct worker_config *c, char **argv, struct err *e);

#endif

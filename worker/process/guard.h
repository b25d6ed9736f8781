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

/* Call it before MPI and before any thread. Forks if this rank gets a guard, and returns only in
 * the worker, with the same environment. It also returns in each worker that is started again, with
 * c->seat. argv: of main(). The guard overwrites it, so that a search for the rank's process finds
 * only one; nothing in `c` may point there. */
int guard_begin(struct worker_config *c, char **argv, struct err *e);

#endif

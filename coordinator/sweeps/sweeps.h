/* Advances the sweeps that have not ended: twice a second, on the scheduler's thread. advance.h
 * decides; this file carries it out. It reads the states of the jobs, submits jobs for the sweep's
 * owner as if the owner had posted them, and writes the list of jobs.
 *
 *   sweeps_tick ─► of each: jobs of the store ─► advance ─► store_job_create, store_job_request
 *                                                  └─► store_sweep_change
 *
 * The queue quota of the owner holds: a trial for which it has no room waits. With the store away
 * nothing happens, and the next tick goes on.
 */
#ifndef COORDINATOR_SWEEPS_SWEEPS_H
#define COORDINATOR_SWEEPS_SWEEPS_H

#include "coordinator/files/quotas.h"
#include "store/store.h"

struct sweeps {
    struct store *store;   /* borrowed, fenced; used by the thread that ticks */
    struct quotas *quotas; /* borrowed; NULL: owners have no limits */
    double due;            /* when it ticks next; 0: at once */
    bool away;             /* the last tick failed, and was logged */
};

/* At `now`, seconds by any clock that never goes backwards. true: jobs were queued or cancelled. */
bool sweeps_tick(struct sweeps *s, double now);

#endif

/* The watchdog: who is alive (docs/semantics.md#alive-or-lost). Heartbeats decide, not MPI, which
 * never notices a rank that is stopped.
 *
 *   age of the heartbeat        the process         stopped, swapped out, its host gone
 *   age of the last progress    the main thread     stuck, while its pulse lives
 *   age of its last work        its CPU time        only slow: its machine has other work
 *   age of the last turn        the communication thread
 */
#ifndef COORDINATOR_MONITOR_WATCHDOG_H
#define COORDINATOR_MONITOR_WATCHDOG_H

#include "coordinator/monitor/ranks.h"
#include "job/documents/people/failure.h"
#include "job/spec/spec.h"

struct watchdog {
    double launched_at;
    double grace_until;   /* before that ages mean nothing, since the store or this process was
                             away */
    double suspect_since; /* -1: no rank is suspected */
    bool suspects_silent; /* by its heartbeats; one that wakes up is suspected anew */
};

void watchdog_init(struct watchdog *w, double now, double grace);
void watchdog_grace(struct watchdog *w, double until);
/* Has a rank been over its deadline for a second? Then *out says which, and why. */
bool watchdog_lost(struct watchdog *w, const struct ranks *ranks, const struct jobspec *spec,
                   double now, struct failure *out);
/* Is the last heartbeat of this rank older than any that comes on time? */
bool watchdog_is_silent(const struct rank *w);
void watchdog_calm(struct watchdog *w); /* suspects no rank from now on */

#endif

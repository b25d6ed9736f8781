/* The watchdog: who is alive (SEMANTICS.md 10). Heartbeats decide, not MPI, which never notices a
 * rank that is stopped.
 *
 *   age of the heartbeat        the process         stopped, swapped out, its host gone
 *   age of the last progress    the main thread     stuck, while its pulse lives
 *   age of its last work        its CPU time        no more than slow: its machine got other work
 *   age of the last turn        the communication thread
 */
#ifndef COORDINATOR_MONITOR_WATCHDOG_H
#define COORDINATOR_MONITOR_WATCHDOG_H

#include "coordinator/monitor/ranks.h"
#include "job/documents/people/failure.h"
#include "job/spec/spec.h"

struct watchdog {
    double launched_at;
    double grace_until;   /* ages mean nothing before: the store was away, or this process was */
    double suspect_since; /* -1: no rank is suspected */
};

void watchdog_init(struct watchdog *w, double now, double grace);
void watchdog_grace(struct watchdog *w, double until);
/* Is a rank over its deadline, and was it a second ago? Then *out says which, and why. */
bool watchdog_lost(struct watchdog *w, const struct ranks *ranks, const struct jobspec *spec,
                   double now, struct failure *out);
void watchdog_calm(struct watchdog *w); /* suspects no rank from now on */

#endif

/* Users of Redis for an attempt's ranks on hosts with agents (store/users.h). */
#ifndef COORDINATOR_TURN_USERS_H
#define COORDINATOR_TURN_USERS_H

#include "coordinator/turn/attempts.h"

/* Makes them, also where they are there. False: the ranks use the one that all workers share. */
bool users_make(struct attempts *a, struct run *r);
/* Makes them again once the store was connected anew: a Redis that was started anew has forgotten
 * them, and ranks come back to it. */
void users_watch(struct attempts *a, struct run *r);
void users_remove(struct attempts *a, const struct plan *plan);

#endif

/* Users of Redis for an attempt's ranks on hosts with agents (store/users.h). */
#ifndef COORDINATOR_TURN_USERS_H
#define COORDINATOR_TURN_USERS_H

#include "coordinator/turn/attempts.h"

/* Makes the users, or gives those that exist new passwords and rights. False: the ranks use the
 * user that all workers share. */
bool users_make(struct attempts *a, struct run *r);
/* Makes them again after each new connection to the store: a Redis that was restarted has forgotten
 * them, and ranks connect to it again. */
void users_watch(struct attempts *a, struct run *r);
void users_remove(struct attempts *a, const struct plan *plan);

#endif

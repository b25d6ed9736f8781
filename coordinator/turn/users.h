/* Users of Redis for an attempt's ranks on hosts with agents (store/users.h). */
#ifndef COORDINATOR_TURN_USERS_H
#define COORDINATOR_TURN_USERS_H

#include "coordinator/turn/attempts.h"

/* Makes them, also where they are there: Redis forgets them when it is started anew. False: the
 * ranks use the one that all workers share. */
bool users_make(struct attempts *a, const struct plan *plan);
void users_remove(struct attempts *a, const struct plan *plan);

#endif

/* How busy nodes were: kept in the store for a week, finer for the last day and half hour
 * (load_tiers in common/machine/load.h), also of nodes that no job uses and that are gone. */
#ifndef STORE_LOADS_H
#define STORE_LOADS_H

#include "common/machine/load.h"
#include "store/store.h"

/* What who sends a host's heartbeats keeps from one to the next. */
struct loads;
struct loads *loads_new(int nodes); /* so many; never NULL */
void loads_free(struct loads *l);
/* Reads this host's load; then the means of each node that are complete are put into the store.
 * gpu: what node i's GPU tells, or NULL. A store that refuses them is logged once: heartbeats count
 * without. */
void loads_read(struct loads *l);
void loads_put(struct loads *l, struct store *s, int i, const char *node, const json_t *gpu);

/* One mean of a tier (0 to LOAD_TIERS-1). */
int store_load_put(struct store *s, const char *node, int tier, const struct load *l,
                   struct err *e);
/* Those that ended after `since` (seconds since 1970), as job/documents/hosts/load.h says, of the
 * finest tier that reaches back so far at each time. NULL: it failed; a node that told none has
 * empty lists. */
json_t *store_loads(struct store *s, const char *node, double since, struct err *e);

#endif

/* How busy nodes were. The store keeps this for a week, and finer for the last day and half hour
 * (load_tiers in common/machine/load.h), also for nodes that no job uses and for nodes that are
 * gone. */
#ifndef STORE_LOADS_H
#define STORE_LOADS_H

#include "common/machine/load.h"
#include "store/store.h"

/* What the sender of a host's heartbeats keeps from one heartbeat to the next. */
struct loads;
struct loads *loads_new(int nodes); /* for this many nodes; never NULL */
void loads_free(struct loads *l);
/* Called in this order for each heartbeat. loads_read() reads this host's load. loads_take() adds
 * it to node i, with the document of its GPU (or NULL); `node` is borrowed until loads_send().
 * loads_send() puts the means that are complete into the store, in one round trip. If the store
 * refuses them that is logged once; the heartbeat counts all the same. */
void loads_read(struct loads *l);
void loads_take(struct loads *l, int i, const char *node, const json_t *gpu);
void loads_send(struct loads *l, struct store *s);

/* A mean of a tier (0 to LOAD_TIERS-1). */
struct load_mean_of {
    const char *node; /* borrowed */
    int tier;
    struct load load;
};
int store_loads_put(struct store *s, const struct load_mean_of *means, int n, struct err *e);
/* The loads that ended after `since` (seconds since 1970), in the form of
 * job/documents/hosts/load.h. For each time they come from the finest tier that reaches back so
 * far. NULL: it failed. A node without loads has empty lists. */
json_t *store_loads(struct store *s, const char *node, double since, struct err *e);

#endif

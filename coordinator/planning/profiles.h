/* What the store keeps of nodes from earlier jobs: step times, memory limits, and what a device
 * measured to choose its algorithms (job/documents/coordinator/measured.h).
 */
#ifndef COORDINATOR_PLANNING_PROFILES_H
#define COORDINATOR_PLANNING_PROFILES_H

#include "coordinator/planning/placement.h"
#include "job/documents/coordinator/measured.h"
#include "store/store.h"

/* What step times belong to besides the node: the network, and the precision if it is not fp32. */
enum { PROFILES_KEY = 32 };
void profiles_key(const struct jobspec *spec, char out[PROFILES_KEY]);

/* What is kept of this node, if it was this device that was measured. Release `out` in any case. */
bool profiles_find(struct store *store, const char *node, const char *device, const char *key,
                   struct measured *out);
/* The profile of this node at this device and speed, or NULL; freed with free(). Of a node that was
 * never measured (count 0) the memory limit alone is known. */
struct profile *profiles_get(struct store *store, const char *node, const char *device,
                             double slowdown, const char *key);
/* The kept profile; NULL if it was measured at another slowdown or is empty. free(). */
struct profile *profiles_of(const struct measured *kept, double slowdown);
/* Profiles of these nodes for this network: an array of `count` pointers, NULL where there is none.
 */
struct profile **profiles_all(struct store *store, const struct jobspec *spec,
                              const struct placement *p);
/* How long these nodes exchanged in a step when they last trained this network together, on
 * average. False: one of them trained it under another strategy, with another number of workers, or
 * never. */
bool profiles_exchange(struct store *store, const struct jobspec *spec, const struct placement *p,
                       struct exchanged *out);
void profiles_free(struct profile **profiles, int count);

#endif

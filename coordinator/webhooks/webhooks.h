/* Tells webhooks of changes of jobs: a thread of its own, so that no turn of the scheduler and no
 * request waits for a receiver.
 *
 *   events of the store ─► hooks.c: which hooks want it ─► queue in the store
 *                                                             └─► send.c ─► receiver
 *
 * What is queued is sent until the receiver answers 2xx, for a day; across restarts of the
 * coordinator, since queue and place in the events are in the store. A receiver may get a delivery
 * twice, and deliveries out of order. docs/webhooks.md is the manual for receivers.
 */
#ifndef COORDINATOR_WEBHOOKS_WEBHOOKS_H
#define COORDINATOR_WEBHOOKS_WEBHOOKS_H

#include <stdbool.h>

#include "common/err.h"

struct store_fence;
struct webhooks;

struct webhooks_config { /* all borrowed; fence until webhooks_stop() */
    const char *store_url, *password;
    const struct store_fence *fence;
    bool local; /* receivers on this host and its link are allowed */
};

/* Starts the thread that sends. NULL: the store's address is wrong, or memory ran out. */
struct webhooks *webhooks_start(const struct webhooks_config *c, struct err *e);
/* Tells the thread that it is to end, and waits for nothing. NULL is fine. */
void webhooks_tell(struct webhooks *w);
/* Deliveries that are under way are tried again by the next coordinator. NULL is fine. */
void webhooks_stop(struct webhooks *w);

#endif

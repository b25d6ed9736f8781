/* The nodes of this host that `evenstep serve` itself offers: registered with a heartbeat from a
 * thread of their own, so that a long turn of the scheduler does not make them look lost. */
#ifndef COORDINATOR_HOSTS_LOCALNODES_H
#define COORDINATOR_HOSTS_LOCALNODES_H

#include <jansson.h>

#include "common/err.h"
#include "common/machine/interpreters.h"

struct localnodes;
/* nodes: array of node documents (copied). interpreters: what the nodes tell of them, borrowed
 * until localnodes_stop; NULL: nothing. The first heartbeat has been sent when it returns. */
struct localnodes *localnodes_start(const char *store_url, const char *password,
                                    const json_t *nodes, struct interpreters *interpreters,
                                    struct err *e);
void localnodes_stop(struct localnodes *l, int remove); /* remove: they leave the store */

#endif

/* Who may work: one coordinator on a store, and one in a data folder (docs/decisions/0016).
 *
 *   lease_open        the folder's lock: DIR/serve.lock, held as long as this process lives
 *   lease_take        the store's lease, 6 s long; a standby waits for it here
 *   a thread          renews it every second, whatever the scheduler does
 *   lease_lost        another coordinator has it: stop without a further change
 *
 * If the lease belongs to a coordinator of this folder and this boot, the holder of the folder's
 * lock knows that it has ended, and takes the lease at once. No process is judged by its number. */
#ifndef COORDINATOR_LEASE_H
#define COORDINATOR_LEASE_H

#include <signal.h>
#include <stdbool.h>

#include "store/store.h"

struct lease_config {
    const char *data_dir; /* absolute; copied, as the others */
    const char *host;     /* name of this host, for other coordinators */
    const char *address;  /* address of its page */
    bool standby;         /* it waits for the end of another coordinator */
    void (*lost)(void);   /* called once, by the lease's thread, when another one has taken over */
};

struct lease;
/* ERR_CONFLICT where another coordinator works in this folder (not for a standby). */
struct lease *lease_open(const struct lease_config *config, struct err *e);
/* Takes the store's lease, and renews it from then on. A standby waits as long as another
 * coordinator renews it. Any other waits only until it knows whether one does, and then fails with
 * ERR_CONFLICT, which names it. ERR_CANCELLED once *stop is set. */
int lease_take(struct lease *l, const char *store_url, const char *password,
               const volatile sig_atomic_t *stop, struct err *e);
/* For store_fence() of every connection; lives as long as the lease. */
const struct store_fence *lease_fence(const struct lease *l);
/* Was the lease renewed in time? If not (the store is away), nothing may be decided. l NULL: true,
 * for a scheduler without rivals. */
bool lease_held(const struct lease *l);
/* Another coordinator has taken over. Never true again once it is. */
bool lease_lost(const struct lease *l);
/* Gives the lease back if it is ours, and the folder's lock. NULL is fine. */
void lease_close(struct lease *l);

#endif

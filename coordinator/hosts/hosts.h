/* Hosts that join: the coordinator's half of job/hostkey.h. A thread of its own takes joins out of
 * the store, and refuses what must be refused with a sentence. Each host that joins gets a new key
 * and a user of Redis (store/users.h). The key is kept in DIR/hosts/HOST.key (mode 0600) for the
 * launch agent. */
#ifndef COORDINATOR_HOSTS_HOSTS_H
#define COORDINATOR_HOSTS_HOSTS_H

#include "store/store.h"

struct hosts_config {
    const char *store_url, *password, *data_dir; /* copied */
    const char *secret_file;                     /* NULL: DIR/secret, made if it is not there */
    const struct store_fence *fence;             /* or NULL; borrowed */
};

struct hosts;
/* Starts the thread that answers hosts. NULL: it cannot read or write the secret or its folder, or
 * the store's address is wrong. The store itself need not be there. */
struct hosts *hosts_start(const struct hosts_config *config, struct err *e);
/* Tells the thread that it is to end, and waits for nothing. NULL is fine. */
void hosts_tell(struct hosts *h);
void hosts_stop(struct hosts *h);

#endif

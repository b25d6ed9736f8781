/* How a host joins: it shows that it knows the cluster's secret, and gets a key of its own from the coordinator.
 *
 *   agent ── join {host, instance, address, versions, nodes, nonce, at} ──► coordinator     sealed with the secret's "join" key
 *   agent ◄─ welcome {accepted, coordinator, salt, key} or {accepted: false, message, hint} ─ sealed with the secret's "welcome" key for that nonce
 *
 * The host's key travels under a pad that follows from the secret, the nonce and the coordinator's salt, and is used once. From then on
 * requests to this host are signed with that key alone (request.h), so a host can be shut out by forgetting its key.
 */
#ifndef AGENT_JOIN_H
#define AGENT_JOIN_H

#include <signal.h>

#include "common/sign.h"
#include "store/store.h"

struct welcome {
    struct sign_key key;      /* of this host */
    char coordinator[SIGN_HEX]; /* which one it is: another one has other keys */
};

/* Asks once and waits at most `patience` seconds. `who` is not changed. 0; ERR_FORBIDDEN: refused, the message says why; ERR_TIMEOUT: nobody
 * answers; ERR_UNAVAILABLE: the store is away; ERR_CANCELLED: *stop. */
int join_ask(struct store *s, const struct sign_key *secret, const json_t *who, double patience, const volatile sig_atomic_t *stop,
             struct welcome *out, struct err *e);
/* The name under which the store keeps which coordinator there is (store_secret_get). */
#define JOIN_COORDINATOR "coordinator"
/* Pad for a host's key: both sides compute it. */
void join_pad(const struct sign_key *secret, const char *nonce, const char *salt, struct sign_key *pad);
/* Keys of the two messages. */
void join_key(const struct sign_key *secret, struct sign_key *out);
void join_welcome_key(const struct sign_key *secret, const char *nonce, struct sign_key *out);

#endif

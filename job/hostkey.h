/* How a host joins, as both sides must agree on it (agent/join.c, coordinator/hosts/hosts.c): it
 * shows that it knows the cluster's secret, and gets a key of its own from the coordinator.
 *
 *   agent ── join {host, instance, address, network, versions, nodes, nonce, at} ──► coordinator
 *                                                 signed with the secret's "join" key
 *   agent ◄─ welcome {accepted, coordinator, salt, key} or {accepted: false, message, hint} ──
 *                                                 signed with its "welcome" key for that nonce
 *
 * The host's key travels under a pad that follows from the secret, the nonce and the coordinator's
 * salt, and is used once. From then on requests to this host are signed with that key alone
 * (agent/request.h), so a host can be shut out by forgetting its key. Boxes (store_mail_put):
 * "join", "welcome.NONCE", "host.HOST", "answer.NONCE". Lease: "launch.NONCE".
 */
#ifndef JOB_HOSTKEY_H
#define JOB_HOSTKEY_H

#include "common/sign.h"

#define HOSTKEY_COORDINATOR \
    "coordinator" /* store_secret_get: which coordinator there is; another one has other keys */
#define HOSTKEY_PREFIX \
    "es-" /* of hosts' names for mpirun, so that it takes none for its own machine */
#define HOSTKEY_NO_DAEMON \
    "the host started no daemon" /* what evenstep-launch logs of it, with host= and why= */

void hostkey_join(const struct sign_key *secret, struct sign_key *out);
void hostkey_welcome(const struct sign_key *secret, const char *nonce, struct sign_key *out);
/* key = key XOR pad(secret, nonce, salt): wraps and unwraps. */
void hostkey_wrap(const struct sign_key *secret, const char *nonce, const char *salt,
                  struct sign_key *key);
/* Empty if a host of these versions may join a coordinator of those, else a sentence that names
 * both. */
char *hostkey_mismatch(const char *host, const json_t *its, const json_t *ours, char out[300]);

#endif

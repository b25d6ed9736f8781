/* Seals of the reports of an attempt's ranks: facts, heartbeats, rows (docs/decisions/0015). Pure.
 *
 * The coordinator draws a key for each attempt and puts it into the environment of mpirun, so the
 * ranks of its own host have it, including the keeper. A host with an agent gets a key that follows
 * from the attempt's key and the host's name. With it the host can speak only for its own ranks.
 *
 *   attempt's key K ─┬─► EVENSTEP_SEAL of mpirun ─► keeper and ranks of the coordinator's host: K
 *                    └─► evenstep-launch: K for HOST ─ wrapped ─► agent
 *                                            ─► EVENSTEP_SEAL of its ranks
 *
 * The messages are those of common/sign.h; `kind` is one of the names below.
 */
#ifndef JOB_SEAL_H
#define JOB_SEAL_H

#include "common/sign.h"

#define SEAL_VARIABLE "EVENSTEP_SEAL" /* environment variable with the rank's key, 64 hex digits */
#define SEAL_FACT "fact"
#define SEAL_BEAT "beat"

/* The store returns the claims of a fact or heartbeat, with the sealed message under this key. */
#define SEAL_FIELD "sealed"

/* The key of a rank's rows, made from its own key. sign_bytes() with it covers the packed rows of
 * an entry. */
void seal_of_rows(const struct sign_key *rank, struct sign_key *out);
/* The key of the ranks on a host with an agent. */
void seal_of_host(const struct sign_key *attempt, const char *host, struct sign_key *out);
/* key = key XOR pad(the host's own key, the request's nonce): wraps and unwraps. */
void seal_wrap(const struct sign_key *host_key, const char *nonce, struct sign_key *key);

#endif

/* Users of Redis that the coordinator makes (docs/decisions/0060): one for each host with an agent,
 * which may change only what belongs to this host, and one for its ranks in each attempt, which may
 * only append to their own streams. So a host that was taken over cannot touch another host or
 * another job.
 *
 *   host's key, of its welcome ──► password of host.HOST                ─┐
 *   key of the attempt's ranks ──► password of ranks.JOB.ATTEMPT.HOST   ─┴─ both sides derive it
 *
 * No password travels. Redis keeps these users in memory: after its restart they are made again.
 * Only Redis over TCP has users, and the coordinator's own must have ACL SETUSER and ACL
 * DELUSER. */
#ifndef STORE_USERS_H
#define STORE_USERS_H

#include "common/sign.h"
#include "store/store.h"

enum { STORE_USER = 64 + 48 };
void store_user_of_host(char out[STORE_USER], const char *host);
void store_user_of_ranks(char out[STORE_USER], const char *job, int attempt, const char *host);
/* The password in hex; key: see above. */
void store_user_password(const struct sign_key *key, char out[SIGN_HEX]);

/* Makes the user, or gives an existing one this password and these rights. ERR_UNSUPPORTED: this
 * store has no users, or the coordinator's user may not make any. */
int store_user_add_host(struct store *s, const char *host, const char *const *nodes, int n,
                        const struct sign_key *key, struct err *e);
int store_user_add_ranks(struct store *s, const char *user, const char *job, const int *ranks,
                         int n, const struct sign_key *key, struct err *e);
int store_user_remove(struct store *s, const char *user, struct err *e);

#endif

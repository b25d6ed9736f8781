/* The agent's half of joining (job/hostkey.h has the picture). */
#ifndef AGENT_JOIN_H
#define AGENT_JOIN_H

#include <signal.h>

#include "common/sign.h"
#include "store/store.h"

struct welcome {
    struct sign_key key;        /* of this host */
    char coordinator[SIGN_HEX]; /* identity of the coordinator; another one has other keys */
    bool own_user;              /* the store has a user for this host (store/users.h) */
};

/* Asks once and waits at most `patience` seconds. `who` is not changed. 0; ERR_FORBIDDEN: refused,
 * the message says why; ERR_TIMEOUT: no answer came; ERR_UNAVAILABLE: the store is away;
 * ERR_CANCELLED: *stop. */
int join_ask(struct store *s, const struct sign_key *secret, const json_t *who, double patience,
             const volatile sig_atomic_t *stop, struct welcome *out, struct err *e);

#endif

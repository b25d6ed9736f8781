/* Sends deliveries: POST over http or https, several at a time on the caller's thread, signed as
 * Standard Webhooks defines it (standardwebhooks.com):
 *
 *   webhook-id: ID     webhook-timestamp: SECONDS
 *   webhook-signature: v1,BASE64(HMAC-SHA256(secret, "ID.SECONDS.BODY"))
 *
 * No redirect is followed and no proxy is used. The address of each connection is checked after its
 * name was looked up, so that no name leads to a forbidden address (common/machine/netaddr.h).
 */
#ifndef COORDINATOR_WEBHOOKS_SEND_H
#define COORDINATOR_WEBHOOKS_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct webhook_sender;

enum { SEND_SECONDS = 15, SEND_WHY = 300 };

/* Borrowed while send_begin() runs; `body` until it has ended. */
struct send_wish {
    const char *address, *secret; /* "whsec_…" */
    const char *id, *body;
    int64_t seconds; /* since 1970 */
    void *ctx;       /* the caller's */
};

struct sent {
    void *ctx;
    int status;         /* that was answered; 0: nothing was */
    int64_t later;      /* seconds after which it asks to be tried again; 0: it says nothing */
    char why[SEND_WHY]; /* "": the answer is 2xx */
};

/* `local`: addresses of this host and its link are allowed. */
struct webhook_sender *send_open(bool local, struct err *e);
void send_close(struct webhook_sender *s); /* ends what is under way; NULL is fine */
/* Ends within SEND_SECONDS. */
int send_begin(struct webhook_sender *s, const struct send_wish *wish, struct err *e);
bool send_under_way(const struct webhook_sender *s);
/* Waits up to `ms` for something to happen. */
void send_wait(struct webhook_sender *s, int ms);
/* A delivery that has ended since the last call; false: none has. */
bool send_ended(struct webhook_sender *s, struct sent *out);

/* "v1,…" into out[64]. ERR_DATA: it is no such secret. */
enum { SEND_SIGNATURE = 64 };
int send_sign(const struct send_wish *wish, char out[SEND_SIGNATURE], struct err *e);

#endif

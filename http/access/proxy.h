/* Sign-in by a proxy in front of the service: it knows who asks (single sign-on, Kerberos, client
 * certificates) and says so in a header (docs/decisions/0033).
 *
 *   browser ─► proxy, which asks who it is ─► X-Forwarded-User: alice ─► service
 *              127.0.0.1, or another address that the operator named
 *
 * The header is believed from these addresses alone. Anybody can write a header, so from other
 * addresses it means nothing.
 */
#ifndef HTTP_ACCESS_PROXY_H
#define HTTP_ACCESS_PROXY_H

#include <netinet/in.h>
#include <stdbool.h>

#include "common/err.h"
#include "http/access/auth.h"

enum { PROXY_HEADER = 64, PROXY_ADDRESSES = 16 };

struct proxy {
    char header[PROXY_HEADER]; /* "": no proxy signs people in */
    enum auth_role role;       /* of everybody whom it signs in */
    struct in6_addr addresses[PROXY_ADDRESSES];
    int n_addresses;
};

/* header NULL: none. addresses: numeric, NULL-terminated. ERR_INVALID: a header that is no token or
 * one that HTTP knows, no or too many addresses, one that is no address, no such role. */
int proxy_init(struct proxy *p, const char *header, const char *role, const char *const *addresses,
               struct err *e);
/* Is it one of the addresses? NULL: no. */
bool proxy_trusts(const struct proxy *p, const struct sockaddr *from);
/* Fills in *who for a name that a trusted proxy gave. ERR_UNAUTHORIZED: it is no valid name. */
int proxy_identify(const struct proxy *p, const char *name, struct identity *who, struct err *e);

#endif

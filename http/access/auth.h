/* Who asks, and what they may do (docs/security.md#http).
 *
 *   Authorization: Bearer TOKEN        a line of the token file (tokens.h), or one that was issued
 *                                      over the API (issued.h)
 *   Cookie: evenstep_PORT=SESSION      made by POST /api/v1/session from a link code (one use,
 *                                      24 h) or an API token
 *
 * Codes and sessions are in the store under their SHA-256 only. A session lives 7 days, but never
 * longer than the token that it was made from, and its role is never above that token's.
 * The same holds for a link and its maker's token; the links that the service itself prints have
 * none.
 */
#ifndef HTTP_ACCESS_AUTH_H
#define HTTP_ACCESS_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "http/access/tokens.h"

struct auth;
struct issued;
struct store;

enum { AUTH_SESSION_SECONDS = 7 * 86400, AUTH_LINK_SECONDS = 86400 };

struct identity {
    enum auth_role role;
    bool by_cookie, by_proxy;
    char name[AUTH_NAME];  /* of the token, what a proxy said, "link", or "" */
    char owner[AUTH_NAME]; /* owner of the jobs that it submits: the name of the token behind it,
                              "admin" for a link of the service itself, "" for nobody */
    char token[TOKEN_ID];  /* id of the token behind it; "": none (links of the service itself, and
                              people whom a proxy signs in) */
};

/* A token file that is not there is made. NULL: one of the files cannot be read or made. */
struct auth *auth_open(const char *token_file, const char *issued_file, struct err *e);
void auth_close(struct auth *a);

/* Both borrowed. */
struct tokens *auth_tokens(struct auth *a);
struct issued *auth_issued(struct auth *a);

/* Looks up the token or the cookie that the request presents; either may be NULL. 0 (who->role is
 * ROLE_NONE if neither was presented), -ERR_UNAUTHORIZED if it is not valid, -ERR_UNAVAILABLE if
 * the store must be asked and is away. `s` NULL: asks memory and the token file alone, and never
 * waits. */
int auth_identify(struct auth *a, struct store *s, const char *authorization, const char *cookie,
                  int port, struct identity *who, struct err *e);
/* false: the token behind it is gone or has expired. Else who->role is at most what the token has
 * now, and who->owner its name. Never waits. */
bool auth_still(struct auth *a, struct identity *who);
/* Exchanges an API token or a link code (which is used up) for a new session. */
int auth_session_start(struct auth *a, struct store *s, const char *token, char session[AUTH_TOKEN],
                       struct identity *who, struct err *e);
int auth_session_end(struct auth *a, struct store *s, const char *cookie, int port, struct err *e);
/* A fresh code for one use within AUTH_LINK_SECONDS; `maker` is the id of the token that asked for
 * it, "" for the service itself. */
int auth_link(struct store *s, enum auth_role role, const char *maker, char code[AUTH_TOKEN],
              struct err *e);
/* The session's value in a Cookie header, or false. */
bool auth_cookie(const char *cookie, int port, char session[AUTH_TOKEN]);
/* Counts a refused credential. true while there were too many within a minute: answer 429. */
bool auth_refused(struct auth *a);

#endif

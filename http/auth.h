/* Who asks, and what they may do (SEMANTICS.md 14).
 *
 *   Authorization: Bearer TOKEN        a line of the token file: TOKEN [ROLE [NAME]], role admin if it is not given
 *   Cookie: evenstep_PORT=SESSION      made by POST /api/v1/session from a link code (one use, 24 h) or an API token
 *
 * Tokens are kept and compared as SHA-256, in constant time; codes and sessions stand in the store
 * under their SHA-256 only. The token file is read again when it has changed. A session lives 7
 * days.
 */
#ifndef HTTP_AUTH_H
#define HTTP_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct auth;
struct store;

/* Each may do what the one before it may. `programs` brings code of its own to the nodes. */
enum auth_role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_PROGRAMS, ROLE_ADMIN };
enum {
    AUTH_TOKEN = 49,
    AUTH_NAME = 64,
    AUTH_SESSION_SECONDS = 7 * 86400,
    AUTH_LINK_SECONDS = 86400
};

struct identity {
    enum auth_role role;
    bool by_cookie;
    char name[AUTH_NAME]; /* of the token, "link", or "" */
};

const char *auth_role_name(enum auth_role role); /* "viewer" */
/* Reads the token file; makes it (mode 0600, one admin's token) if there is none. */
struct auth *auth_open(const char *token_file, struct err *e);
void auth_close(struct auth *a);

/* Looks up what the request presents; either may be NULL. 0 (who->role may be ROLE_NONE: nothing
 * was presented), -ERR_UNAUTHORIZED for what is wrong, -ERR_UNAVAILABLE if the store must be asked
 * and is away. */
int auth_identify(struct auth *a, struct store *s, const char *authorization, const char *cookie,
                  int port, struct identity *who, struct err *e);
/* Exchanges an API token or a link code (which is used up) for a new session. */
int auth_session_start(struct auth *a, struct store *s, const char *token, char session[AUTH_TOKEN],
                       struct identity *who, struct err *e);
int auth_session_end(struct auth *a, struct store *s, const char *cookie, int port, struct err *e);
/* A fresh code for one use within AUTH_LINK_SECONDS. */
int auth_link(struct store *s, enum auth_role role, char code[AUTH_TOKEN], struct err *e);
/* The session's value in a Cookie header, or false. */
bool auth_cookie(const char *cookie, int port, char session[AUTH_TOKEN]);
/* Counts a refused credential. true while there were too many within a minute: answer 429. */
bool auth_refused(struct auth *a);

#endif

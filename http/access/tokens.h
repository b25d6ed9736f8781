/* The token file: each line is TOKEN [ROLE [NAME]], role admin if it is not given
 * (docs/security.md#http). It is read again when it has changed. Tokens are kept and compared as
 * SHA-256, in constant time.
 *
 * A token also has an id, which is no secret: sessions and links carry it, and end when its line is
 * gone from the file.
 */
#ifndef HTTP_ACCESS_TOKENS_H
#define HTTP_ACCESS_TOKENS_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

/* Each role may do all that the one before it may. ROLE_PROGRAMS may bring code of its own to the
 * nodes. */
enum auth_role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_PROGRAMS, ROLE_ADMIN };
enum { AUTH_TOKEN = 49, AUTH_NAME = 64, TOKEN_ID = 17 };

struct token {
    enum auth_role role;
    char name[AUTH_NAME];
    char id[TOKEN_ID]; /* 16 hexadecimal digits, of the hash's hash */
};

const char *auth_role_name(enum auth_role role); /* "viewer" */
enum auth_role auth_role_find(const char *name); /* ROLE_NONE: there is none of this name */
/* A fresh random token. */
int token_make(char out[AUTH_TOKEN], struct err *e);

struct tokens; /* any thread may ask */
/* Reads the file; makes it (mode 0600, one admin's token) if there is none. */
struct tokens *tokens_open(const char *file, struct err *e);
void tokens_close(struct tokens *t);
/* Checks the file now. Otherwise a call checks it, once a second at most. */
void tokens_read_again(struct tokens *t);
bool tokens_find(struct tokens *t, const char *text, struct token *out);
/* The token of this id, as its line is now; false: it is no longer in the file. */
bool tokens_still(struct tokens *t, const char *id, struct token *out);
/* Appends a document (schema Token) of each line. */
int tokens_list(struct tokens *t, json_t *list, struct err *e);

#endif

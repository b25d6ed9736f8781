/* Tokens that admins issue over the API, beside the lines of the token file (tokens.h): each has a
 * name, which makes its holder the owner of what it submits, a role, and most have an end.
 *
 *   make ─► text, told once ─► only its SHA-256 in FILE (mode 0600), written whole at each change
 *   find ─► compared with every one, in constant time, in memory alone
 *
 * What has ended stays listed for ISSUED_KEPT_DAYS. The service alone writes the file.
 */
#ifndef HTTP_ACCESS_ISSUED_H
#define HTTP_ACCESS_ISSUED_H

#include <jansson.h>
#include <stdint.h>

#include "http/access/tokens.h"

enum { ISSUED_MOST = 1000, ISSUED_KEPT_DAYS = 30 };

/* What is asked for. Borrowed. */
struct issued_wish {
    const char *name; /* of its holder, 1 to AUTH_NAME - 1 bytes */
    const char *by;   /* who asks for it */
    enum auth_role role;
    int64_t seconds; /* that it lives; 0: until it is revoked */
};

enum issued_found { ISSUED_UNKNOWN, ISSUED_GOOD, ISSUED_ENDED };

struct issued; /* any thread may ask */
/* Reads the file if there is one. */
struct issued *issued_open(const char *file, struct err *e);
void issued_close(struct issued *t);
/* Makes a token and saves it. text[] is the token, which nobody can get again. Returns its document
 * (schema Token; new reference), or NULL. */
json_t *issued_make(struct issued *t, const struct issued_wish *wish, char text[AUTH_TOKEN],
                    struct err *e);
/* Appends the documents of all, oldest first. */
int issued_list(struct issued *t, json_t *list, struct err *e);
/* ERR_NOT_FOUND: there is none of this id. */
int issued_revoke(struct issued *t, const char *id, struct err *e);
/* These two never wait. *out is set for ISSUED_GOOD. */
enum issued_found issued_find(struct issued *t, const char *text, struct token *out);
enum issued_found issued_still(struct issued *t, const char *id, struct token *out);

#endif

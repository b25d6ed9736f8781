/* What a handler answers with. A handler fills in one struct reply and returns 0, or returns a
 * negative code with its error; the error (and the problems of the request) then become
 * application/problem+json (RFC 9457):
 *   {"type", "title", "status", "detail", "errors": [{"pointer", "message"}], "hint"}
 * Every answer gets the security headers; the policy allows our own scripts, styles and connections
 * and nothing inline.
 */
#ifndef HTTP_ANSWER_REPLY_H
#define HTTP_ANSWER_REPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text/buf.h"
#include "common/err.h"
#include "common/json/jsonx.h"

struct MHD_Connection;
struct MHD_Response;
struct text;

struct reply {
    int status;
    struct MHD_Response *response; /* owned until it is sent */
    struct text *text; /* what it sends, or NULL: a file, events, nothing; a reference */
};

/* Takes `body` (NULL is an error of memory). Not to be cached. */
int reply_set_json(struct reply *r, int status, json_t *body, struct err *e);
/* Takes `text` (malloc'd); `type` is a literal. Not to be cached. */
int reply_set_text(struct reply *r, int status, const char *type, char *text, size_t len,
                   struct err *e);
/* Takes the reference (NULL is an error of memory); an ETag that it has becomes a header. */
int reply_set_shared(struct reply *r, int status, struct text *text, const char *cache_control,
                     struct err *e);
/* Gives the answer, a text that is not shared yet, an ETag of this version and of its bytes:
 * "VERSION.DIGEST". */
void reply_version(struct reply *r, const char *version);
/* The answer's ETag, with its quotes, or NULL: it has none, or is no text. Borrowed. */
const char *reply_etag(const struct reply *r);
/* Compresses the answer if the client's Accept-Encoding (NULL: none was sent) allows it and
 * text_packs() says that it is worth it. */
void reply_pack(struct reply *r, const char *accept_encoding);
int reply_set_empty(struct reply *r, int status, struct err *e);
/* The answer to a HEAD where that to a GET has no length: 200. */
int reply_set_endless(struct reply *r, struct err *e);
/* 304 for a file of this ETag and length. */
int reply_set_unchanged(struct reply *r, const char *etag, uint64_t bytes, struct err *e);
/* The answer, a text that has an ETag, becomes a 304. */
void reply_unchanged(struct reply *r);
/* Replaces the contents of r. problems and hint may be NULL. Never fails but for memory, when
 * r->response is NULL. */
void reply_problem(struct reply *r, int status, const char *slug, const char *title,
                   const char *detail, const char *hint, const struct jsonx_problems *problems);
void reply_error(struct reply *r, const struct err *e, const struct jsonx_problems *problems);
/* 412: the resource's ETag is none of those that If-Match names. Always returns 0. */
int reply_precondition(struct reply *r);
void reply_header(struct reply *r, const char *name, const char *value);
void reply_release(struct reply *r);
/* Adds the security headers, hands it to the connection and releases r; MHD_YES or MHD_NO. */
int reply_send(struct reply *r, struct MHD_Connection *connection);
/* Appends the whole answer as bytes, with `Connection: close`: for a connection on which the
 * library cannot answer. The caller releases both. */
void reply_print(struct reply *r, struct buf *out);
/* Is this thread within reply_send()? */
bool reply_is_sent(void);

#endif

/* The form of a request, from its header alone: where its body ends, what its target and Host are,
 * how long it is, which media types it brings and takes. gate.c checks it before it checks who
 * asks.
 *
 * libmicrohttpd refuses some malformed requests itself (a request line or header that it cannot
 * read, HTTP/2.0, more than HTTP_POOL_BYTES); those answers are plain text of its own. What it lets
 * through is refused here, as problem+json. A body whose end is uncertain (two lengths; a length
 * and a transfer coding) is not read: what follows it could be taken for another request, so the
 * answer closes the connection (RFC 9112, 6.3).
 *
 * Each check is 0, or it has put the problem into q->reply.
 */
#ifndef HTTP_REQUEST_FORM_H
#define HTTP_REQUEST_FORM_H

#include "http/request/request.h"

/* Where the path of a target begins: "/path" of "http://HOST/path" too. Borrowed. */
const char *form_path(const char *url);
/* Sets q->path and q->host from libmicrohttpd's decoded target: "/path", or
 * "http://HOST/path", whose host replaces the Host header (RFC 9112, 3.2.2). */
void form_read_target(struct request *q, const char *url);
/* Sets q->id: the client's X-Request-Id if it is a word of at most 64 characters, else a new one.
 */
void form_read_id(struct request *q);

int form_check_framing(struct request *q);     /* 400 or 501; q->closes */
int form_check_length(struct request *q);      /* 414, 431 */
int form_check_host(struct request *q);        /* 400, 403 */
int form_check_expectation(struct request *q); /* 417 */
int form_check_conditions(struct request *q);  /* 400 */
/* After the route is known: 406, 415. */
int form_check_types(struct request *q);

/* The problem of a request that is not answered; always -1. `hint` may be NULL. */
int form_refuse(struct request *q, int status, const char *slug, const char *title,
                const char *detail, const char *hint);

#endif

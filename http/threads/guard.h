/* Deadlines of connections. libmicrohttpd's own timeout counts from the last byte, so a client that
 * sends one byte now and then could hold a connection for ever. The guard keeps a deadline for each
 * connection's request and shuts the socket down after it; libmicrohttpd then sees an end of file
 * and cleans up.
 *
 *   accepted ──10 s──► header complete ──60 s──► body complete ── no deadline ──► answered
 *            ──60 s──► next header
 */
#ifndef HTTP_THREADS_GUARD_H
#define HTTP_THREADS_GUARD_H

#include "common/err.h"

struct guard;
struct guarded; /* one connection */

struct http_deadlines; /* http/server.h */

/* Starts the thread that ends connections which are over a deadline. NULL: memory ran out. */
struct guard *guard_start(const struct http_deadlines *wanted, struct err *e);
void guard_stop(struct guard *g);                     /* every connection must have left */
struct guarded *guard_enter(struct guard *g, int fd); /* accepted; NULL if memory ran out */
void guard_leave(struct guard *g,
                 struct guarded *c); /* before its socket is closed; NULL is fine */
void guard_header_done(struct guard *g, struct guarded *c);
/* The body of an upload may take this long. */
void guard_upload(struct guard *g, struct guarded *c, double seconds);
void guard_body_done(struct guard *g, struct guarded *c);
void guard_answered(struct guard *g, struct guarded *c);

#endif

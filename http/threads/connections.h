/* Connections to the store: one for each thread, since a struct store belongs to one thread. Any
 * thread of the server may ask; its connection is closed when the thread ends.
 */
#ifndef HTTP_THREADS_CONNECTIONS_H
#define HTTP_THREADS_CONNECTIONS_H

#include "common/err.h"

struct connections;
struct store;

#define CONNECTIONS_REST 1.0 /* seconds */

/* Both texts are copied; the password may be NULL. Connects to nothing yet. */
struct connections *connections_new(const char *url, const char *password, struct err *e);
/* Closes the calling thread's own; the other threads have ended. NULL is fine. */
void connections_free(struct connections *c);
/* The calling thread's own connection; lives until the thread ends. NULL with ERR_MEMORY or a bad
 * URL, or ERR_UNAVAILABLE while the store rests. */
struct store *connections_store(struct connections *c, struct err *e);
/* A call to the store took `seconds` and found it away. If that was its time limit, the store
 * hangs: connections_store() refuses at once, with ERR_UNAVAILABLE, for the next CONNECTIONS_REST.
 */
void connections_away(struct connections *c, double seconds);

#endif

/* What the files of this room share: the server itself. A newcomer would get the threads wrong:
 * every field is written before the daemon starts, or has its own lock behind the pointer (auth,
 * stream, files, guard, recent). Handlers run on any of HTTP_WORKERS threads (the quick ones on the
 * event threads); each thread has its own connection to the store, which server_store() gives.
 */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "http/auth.h"
#include "http/files.h"
#include "http/guard.h"
#include "http/hosts.h"
#include "http/recent.h"
#include "http/server.h"
#include "http/stream.h"
#include "http/work.h"
#include "store/store.h"

enum {
    HTTP_THREADS = 2,          /* event threads: sockets, the gate, what is quick */
    HTTP_WORKERS = 6,          /* handlers that wait for the store, the disk or the coordinator */
    HTTP_BODY_BYTES = 4 << 20, /* a larger body: 413 */
    HTTP_DISCARD_BYTES =
        256 << 20, /* a body past this is not even read to its end: the connection is closed */
    HTTP_CONNECTIONS = 4096,
    HTTP_HEADER_BYTES = 32 << 10, /* request line and headers; more: 431 */
};

struct MHD_Daemon;
struct MHD_Connection;
struct request;

struct http_server {
    char *data_dir, *static_dir, *store_url, *store_password; /* owned copies */
    struct http_hooks hooks;
    struct hosts hosts;
    struct auth *auth;
    struct stream *stream;
    struct digests *digests; /* SHA-256 of artifacts, by path, size and time */
    struct guard *guard;
    struct recent *recent; /* answers that many ask for */
    struct work *work;
    struct MHD_Daemon *daemon;
    pthread_key_t store_key;
    int listen_fd, port;
    double started;         /* clock_now() */
    atomic_long answers[6]; /* [status / 100] */
};

/* dispatch.c: what libmicrohttpd calls for each request. */
void *dispatch_uri(void *server, const char *uri, struct MHD_Connection *connection);
int dispatch_request(void *server, struct MHD_Connection *connection, const char *url,
                     const char *method, const char *upload, size_t *upload_bytes, void **request);
void dispatch_run(struct request *q); /* the handler; on a thread of work.c */
void dispatch_done(void *server, void **request);

/* The calling thread's own connection; lives until the thread ends. NULL with ERR_MEMORY or a bad
 * URL. */
struct store *server_store(struct http_server *s, struct err *e);

#endif

/* What the files of this room share: the server's parts, and its limits. Every field is written
 * before the daemon starts; a part that changes later has its own lock behind the pointer. Handlers
 * run on any of HTTP_WORKERS threads (the quick ones on the event threads).
 */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include <stdatomic.h>

#include "http/access/hosts.h"
#include "http/access/proxy.h"
#include "http/server.h"

enum {
    HTTP_THREADS = 2,          /* event threads: sockets, the gate, quick handlers */
    HTTP_WORKERS = 6,          /* handlers that wait for the store, the disk or the coordinator */
    HTTP_BODY_BYTES = 4 << 20, /* a larger body: 413 */
    HTTP_STRANGER_BYTES = 4 << 10, /* where no token is asked for: 413 */
    HTTP_BODIES_BYTES = 64 << 20,  /* all bodies together: 503 */
    HTTP_DISCARD_BYTES =
        256 << 20, /* a longer body is not read to its end: the connection is closed */
    HTTP_CONNECTIONS = 4096,
    HTTP_TARGET_BYTES = 8 << 10,  /* a longer one: 414 */
    HTTP_HEADER_BYTES = 16 << 10, /* request line and headers; more: 431 */
    HTTP_POOL_BYTES = 40 << 10,   /* memory of a connection; more: libmicrohttpd's own 414 or 431 */
};

struct MHD_Daemon;
struct histogram;

struct http_server {
    char *data_dir, *static_dir; /* owned copies */
    struct http_hooks hooks;
    struct hosts hosts;              /* names under which it is asked for */
    struct auth *auth;               /* who asks */
    struct proxy proxy;              /* who says so for others */
    struct audit *audit;             /* who changed what */
    struct tls *tls;                 /* the certificate; NULL: without TLS */
    struct guard *guard;             /* how long a request may take */
    struct connections *connections; /* to the store */
    struct stream *stream;           /* events */
    struct digests *digests;         /* SHA-256 of artifacts, by path, size and time */
    struct pages *pages;             /* the page's files, read and compressed */
    struct recent *recent;           /* answers that many ask for */
    struct tally *tally;             /* what events say, counted */
    const struct route *routes;      /* the table, for those that tell of it */
    struct histogram *timings;       /* [routes]: seconds from header to answer; owned */
    struct work *work;               /* threads of handlers */
    struct MHD_Daemon *daemon;
    atomic_bool stops; /* takes no further connection */
    int listen_fd;     /* the daemon's, once there is one */
    int port;
    double started;           /* clock_now() */
    atomic_size_t body_bytes; /* memory of the bodies that are arriving or being worked on */
    atomic_int uploads;       /* under way */
    atomic_long answers[6];   /* [status / 100] */
    bool local_webhooks;      /* webhooks may lead to this host */
    char instance[9];         /* random digits: what ids of requests begin with */
    atomic_ulong requests;    /* ids given */
};

#endif

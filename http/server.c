/* Starting and stopping the HTTP room: one libmicrohttpd daemon with a few epoll threads, the
 * threads that run handlers, the reader of events, the guard of connections, and for each thread
 * its own connection to the store.
 *
 *   http_start: socket ─► connections, hosts, auth, guard, stream, work ─► daemon
 *   http_stop:  the other way round
 *
 * libmicrohttpd must not be stopped while a connection is suspended, so event stream and work end
 * first, which resumes every client. From then on may_connect() lets no client in.
 * MHD_quiesce_daemon() is for that, but aborts the process now and then: it and an event thread may
 * both take the socket out of the thread's epoll set (docs/decisions/0058).
 */
#include "http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text/hex.h"
#include "common/log.h"
#include "http/access/audit.h"
#include "http/access/auth.h"
#include "http/access/tls.h"
#include "http/threads/connections.h"
#include "http/content/files.h"
#include "http/content/pages.h"
#include "http/request/dispatch.h"
#include "http/events/histogram.h"
#include "http/events/stream.h"
#include "http/events/tally.h"
#include "http/threads/guard.h"
#include "http/internal.h"
#include "http/answer/recent.h"
#include "http/routes.h"
#include "http/request/unreadable.h"
#include "http/threads/work.h"

enum { SPARE_FILES = 256, WRITE_SECONDS = 75, BACKLOG = 511 };

/* ---- what libmicrohttpd calls ---------------------------------------------------------------- */

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    struct dispatch_line line = {url, method, version};
    return dispatch_request(ctx, connection, &line, upload, upload_bytes, request) == MHD_YES
               ? MHD_YES
               : MHD_NO;
}

static void on_done(void *ctx, struct MHD_Connection *connection, void **request,
                    enum MHD_RequestTerminationCode why)
{
    (void)connection;
    (void)why;
    dispatch_done(ctx, request);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **guarded,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *s = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *guarded = info ? guard_enter(s->guard, (int)info->connect_fd) : NULL;
    } else {
        guard_leave(s->guard, *guarded);
        *guarded = NULL;
    }
}

__attribute__((format(printf, 2, 0))) static void on_message(void *ctx, const char *format,
                                                             va_list args)
{
    char text[300], quoted[640];
    (void)ctx;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("http", "libmicrohttpd", "text=%s", log_quote(quoted, sizeof(quoted), text));
}

/* Called for each new connection. */
static enum MHD_Result may_connect(void *ctx, const struct sockaddr *from, socklen_t bytes)
{
    struct http_server *s = ctx;
    (void)from;
    (void)bytes;
    return atomic_load(&s->stops) ? MHD_NO : MHD_YES;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int bind_one(const struct addrinfo *at)
{
    int on = 1,
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int bound_port(int fd)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof(at);
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
        getnameinfo((struct sockaddr *)&at, len, NULL, 0, port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return 0;
    }
    return (int)strtol(port, NULL, 10);
}

static int open_socket(struct http_server *s, const char *address, struct err *e)
{
    char host[HOSTS_NAME], port[16];
    int number;
    if (hosts_split(address, host, &number, e) < 0) {
        return -(int)e->code;
    }
    snprintf(port, sizeof(port), "%d", number);
    struct addrinfo ask = {.ai_family = AF_UNSPEC,
                           .ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_PASSIVE},
                    *list = NULL;
    int found = getaddrinfo(host, port, &ask, &list);
    if (found != 0) {
        return err_set(e, ERR_INVALID, "cannot listen on '%s': %s", address, gai_strerror(found));
    }
    for (struct addrinfo *at = list; at && s->listen_fd < 0; at = at->ai_next) {
        s->listen_fd = bind_one(at);
    }
    int why = errno,
        rc = s->listen_fd < 0 ? err_errno(e, ERR_IO, "cannot listen on '%s'", address) : 0;
    if (rc < 0 && why == EADDRINUSE) {
        err_hint(e,
                 "another program, perhaps another evenstep serve, listens there: choose another "
                 "--listen; port 0 takes a free one");
    }
    freeaddrinfo(list);
    if (rc == 0) {
        s->port = bound_port(s->listen_fd);
    }
    return rc;
}

/* As many connections as open files allow; the soft limit is raised for it. */
static unsigned allowed_connections(void)
{
    struct rlimit files;
    rlim_t wanted = HTTP_CONNECTIONS + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return 512;
    }
    if (files.rlim_cur < wanted) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < wanted) {
            log_warn("http", "few open files are allowed, so few browsers can watch", "limit=%llu",
                     (unsigned long long)files.rlim_cur);
        }
    }
    if (files.rlim_cur >= wanted) {
        return HTTP_CONNECTIONS;
    }
    return files.rlim_cur > (rlim_t)2 * SPARE_FILES ? (unsigned)files.rlim_cur - SPARE_FILES
                                                    : (unsigned)files.rlim_cur / 2;
}

static int start_daemon(struct http_server *s, unsigned unread, struct err *e)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    char versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_callback()},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, versions},
                                   {MHD_OPTION_END, 0, NULL}};
    s->daemon = MHD_start_daemon(
        flags | (s->tls ? MHD_USE_TLS : 0), 0, may_connect, s, on_request, s,
        MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_LISTEN_SOCKET, s->listen_fd,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)HTTP_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        allowed_connections(), MHD_OPTION_CONNECTION_TIMEOUT,
        unread ? unread : (unsigned)WRITE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HTTP_POOL_BYTES, MHD_OPTION_URI_LOG_CALLBACK, dispatch_uri, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_done, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_ARRAY, s->tls ? tls : tls + 2, MHD_OPTION_END);
    return s->daemon
               ? 0
               : err_errno(e, ERR_INTERNAL, "cannot start the HTTP server on port %d", s->port);
}

/* Draws the beginning of request ids, so that they differ from those of other services. */
static void name_instance(struct http_server *s)
{
    unsigned char bytes[4] = {0};
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        uint64_t now = (uint64_t)clock_wall_ms();
        memcpy(bytes, &now, sizeof(bytes));
    }
    hex_of(s->instance, bytes, sizeof(bytes));
}

static int copy_config(struct http_server *s, const struct http_config *c, struct err *e)
{
    s->data_dir = strdup(c->data_dir);
    s->static_dir = strdup(c->static_dir ? c->static_dir : "");
    s->hooks = c->hooks;
    s->local_webhooks = c->local_webhooks;
    s->started = clock_now();
    name_instance(s);
    return s->data_dir && s->static_dir
               ? 0
               : err_set(e, ERR_MEMORY, "cannot start the HTTP server: memory ran out");
}

static int start_counting(struct http_server *s, struct err *e)
{
    int n = routes_count();
    s->routes = routes;
    s->timings = calloc((size_t)n, sizeof(*s->timings));
    if (!s->timings) {
        return err_set(e, ERR_MEMORY, "cannot start the HTTP server: memory ran out");
    }
    for (int i = 0; i < n; i++) {
        histogram_init(&s->timings[i], histogram_seconds);
    }
    s->tally = tally_new(e);
    return s->tally ? 0 : -(int)e->code;
}

static int open_tls(struct http_server *s, const struct http_config *c, struct err *e)
{
    if (!c->tls_cert) {
        return 0;
    }
    s->tls = tls_open(c->tls_cert, c->tls_key, e);
    s->hosts.tls = true;
    return s->tls ? 0 : -(int)e->code;
}

/* Opens the proxy's sign-in, the tokens and the audit. */
static int open_access(struct http_server *s, const struct http_config *c, struct err *e)
{
    char issued[1024];
    snprintf(issued, sizeof(issued), "%s/issued-tokens", c->data_dir);
    return proxy_init(&s->proxy, c->proxy.header, c->proxy.role, c->proxy.addresses, e) == 0 &&
                   (s->auth = auth_open(c->token_file, issued, e)) &&
                   (s->audit = audit_open(c->data_dir, e))
               ? 0
               : -(int)e->code;
}

/* Opens what runs no thread, the socket included. Negative; *e is not set where only memory ran
 * out. */
static int open_parts(struct http_server *s, const struct http_config *c, struct err *e)
{
    if (copy_config(s, c, e) < 0 || open_socket(s, c->listen, e) < 0 ||
        hosts_init(&s->hosts, c->listen, s->port, c->allow_hosts, e) < 0 || open_tls(s, c, e) < 0 ||
        open_access(s, c, e) < 0 || start_counting(s, e) < 0) {
        return -1;
    }
    s->connections = connections_new(c->store_url, c->store_password, e);
    s->digests = digests_new();
    s->pages = pages_new();
    s->recent = recent_new();
    return s->connections && s->digests && s->pages && s->recent ? 0 : -1;
}

/* Starts the threads, the daemon last. Negative with *e. */
static int start_threads(struct http_server *s, const struct http_config *c, struct err *e)
{
    if (!(s->guard = guard_start(&c->deadlines, e)) ||
        !(s->stream =
              stream_start(c->store_url, c->store_password, s->recent, s->auth, s->tally, e)) ||
        !(s->work = work_start(HTTP_WORKERS, e))) {
        return -1;
    }
    return start_daemon(s, c->deadlines.unread, e);
}

struct http_server *http_start(const struct http_config *config, struct err *e)
{
    struct http_server *s = calloc(1, sizeof(*s));
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the HTTP server: memory ran out");
        return NULL;
    }
    s->listen_fd = -1;
    if (open_parts(s, config, e) < 0 || start_threads(s, config, e) < 0) {
        if (e && !e->code) {
            err_set(e, ERR_MEMORY, "cannot start the HTTP server: memory ran out");
        }
        http_stop(s);
        return NULL;
    }
    unreadable_serve(s);
    return s;
}

void http_stop(struct http_server *s)
{
    if (!s) {
        return;
    }
    atomic_store(&s->stops, true);
    if (s->stream) {
        stream_finish(s->stream);
    }
    work_stop(s->work);
    if (s->daemon) {
        MHD_stop_daemon(s->daemon); /* this closes the socket */
    } else if (s->listen_fd >= 0) {
        close(s->listen_fd);
    }
    unreadable_serve(NULL);
    work_free(s->work);
    stream_free(s->stream);
    tally_free(s->tally);
    free(s->timings);
    guard_stop(s->guard);
    recent_free(s->recent);
    digests_free(s->digests);
    pages_free(s->pages);
    auth_close(s->auth);
    audit_close(s->audit);
    tls_close(s->tls);
    connections_free(s->connections);
    free(s->data_dir);
    free(s->static_dir);
    free(s);
}

int http_port(const struct http_server *s)
{
    return s->port;
}

const char *http_scheme(const struct http_server *s)
{
    return s->tls ? "https" : "http";
}

bool http_pin(const struct http_server *s, char out[TLS_PIN])
{
    if (s->tls) {
        tls_pin(s->tls, out);
    }
    return s->tls != NULL;
}

void http_read_again(struct http_server *s)
{
    tokens_read_again(auth_tokens(s->auth));
    if (s->tls) {
        tls_read_again(s->tls);
    }
}

int http_link(struct http_server *s, char *out, struct err *e)
{
    char code[AUTH_TOKEN];
    struct store *store = connections_store(s->connections, e);
    if (!store || auth_link(store, ROLE_ADMIN, "", code, e) < 0) {
        return -(int)e->code;
    }
    hosts_link(&s->hosts, code, out);
    return 0;
}

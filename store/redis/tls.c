/* TLS to Redis, for addresses that begin with rediss://. hiredis of Debian 12 speaks no TLS, so it
 * gets one end of a socket pair, and a thread for each connection carries bytes between the other
 * end and the server:
 *
 *   hiredis ── socket pair ── thread ── TLS ── Redis
 *
 * The server's certificate is verified, and its name or address. Certificates are read at each
 * connection, so a renewed one holds from the next connection on. When one side closes, the thread
 * closes the other and ends, so that a lost server is a closed socket for hiredis, as without TLS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/internal.h"

enum { BUFFER = 16384 };

struct buffer {
    char bytes[BUFFER];
    size_t from, to; /* the bytes in the buffer */
};

struct pump {
    SSL *ssl;
    int server, plain; /* sockets; owned */
    struct buffer up, down;
};

static void pump_free(struct pump *p)
{
    SSL_free(p->ssl);
    if (p->server >= 0) {
        close(p->server);
    }
    if (p->plain >= 0) {
        close(p->plain);
    }
    free(p);
}

/* ---- carrying -------------------------------------------------------------------------------- */

static bool is_empty(const struct buffer *b)
{
    return b->from == b->to;
}

static bool must_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* The outcome of SSL_read or SSL_write: bytes moved; 0: it waits for the socket; -1: the end. */
static int outcome(const SSL *ssl, int n)
{
    int why = SSL_get_error(ssl, n);
    return n > 0 ? n : why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

/* Carries bytes from hiredis to the server; false: one of the two has closed. */
static bool carry_up(struct pump *p)
{
    struct buffer *b = &p->up;
    if (is_empty(b)) {
        ssize_t n = recv(p->plain, b->bytes, BUFFER, MSG_DONTWAIT);
        if (n <= 0) {
            return n < 0 && must_wait();
        }
        b->from = 0;
        b->to = (size_t)n;
    }
    int n = outcome(p->ssl, SSL_write(p->ssl, b->bytes + b->from, (int)(b->to - b->from)));
    b->from += n > 0 ? (size_t)n : 0;
    return n >= 0;
}

static bool carry_down(struct pump *p)
{
    struct buffer *b = &p->down;
    if (is_empty(b)) {
        int n = outcome(p->ssl, SSL_read(p->ssl, b->bytes, BUFFER));
        if (n <= 0) {
            return n == 0;
        }
        b->from = 0;
        b->to = (size_t)n;
    }
    ssize_t n = send(p->plain, b->bytes + b->from, b->to - b->from, MSG_DONTWAIT | MSG_NOSIGNAL);
    b->from += n > 0 ? (size_t)n : 0;
    return n >= 0 || must_wait();
}

/* The thread's loop. A full buffer waits for its reader, an empty one for data. */
static void *pump_run(void *arg)
{
    struct pump *p = arg;
    bool open = true;
    while (open) {
        bool up = !is_empty(&p->up), down = !is_empty(&p->down);
        struct pollfd fds[] = {{p->plain, (short)((up ? 0 : POLLIN) | (down ? POLLOUT : 0)), 0},
                               {p->server, (short)((down ? 0 : POLLIN) | (up ? POLLOUT : 0)), 0}};
        bool ready = !down && SSL_pending(p->ssl) > 0; /* OpenSSL has read more than it has
                                                          returned */
        if (poll(fds, 2, ready ? 0 : -1) < 0 && errno != EINTR) {
            break;
        }
        ERR_clear_error();
        open = carry_up(p) && carry_down(p);
    }
    pump_free(p);
    return NULL;
}

/* Starts the thread, with all signals blocked. */
static int start(struct pump *p)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&thread, &attr, pump_run, p);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static const char *last_error(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    return text                                      ? text
           : errno == EAGAIN || errno == EWOULDBLOCK ? "no answer; is it a port for TLS?"
           : errno                                   ? strerror(errno)
                                                     : "the server closed the connection";
}

/* The settings of TLS. NULL: `why` names the file and what is wrong with it. */
static SSL_CTX *context(const struct store_tls *t, char why[STORE_WHY])
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    const char *bad = NULL;
    if (!c || !SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION)) {
        bad = "OpenSSL";
    } else if (t->ca[0] ? !SSL_CTX_load_verify_file(c, t->ca)
                        : !SSL_CTX_set_default_verify_paths(c)) {
        bad = t->ca[0] ? t->ca : "the system's authorities";
    } else if (t->cert[0] && SSL_CTX_use_certificate_chain_file(c, t->cert) != 1) {
        bad = t->cert;
    } else if (t->key[0] && SSL_CTX_use_PrivateKey_file(c, t->key, SSL_FILETYPE_PEM) != 1) {
        bad = t->key;
    }
    if (!bad) {
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
        return c;
    }
    snprintf(why, STORE_WHY, "cannot use %.200s for TLS: %.100s", bad, last_error());
    SSL_CTX_free(c);
    return NULL;
}

static bool expect_name(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* Shakes hands on a socket whose calls have a time limit. Afterwards its calls do not block. */
static SSL *handshake(const struct store *s, int fd, char why[STORE_WHY])
{
    ERR_clear_error();
    errno = 0;
    SSL_CTX *c = context(&s->tls, why);
    SSL *ssl = c ? SSL_new(c) : NULL;
    SSL_CTX_free(c); /* the connection keeps what it needs */
    if (!c) {
        return NULL;
    }
    if (ssl && expect_name(ssl, s->address) && SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1 &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0) {
        SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        return ssl;
    }
    long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
    snprintf(why, STORE_WHY, "TLS failed: %.200s",
             verified != X509_V_OK ? X509_verify_cert_error_string(verified) : last_error());
    SSL_free(ssl);
    return NULL;
}

/* Connects without TLS, and returns a copy of that connection's socket; -1 with `why`. */
static int connect_socket(const struct store *s, struct timeval limit, char why[STORE_WHY])
{
    redisContext *c = redisConnectWithTimeout(s->address, s->port, limit);
    int fd = c && !c->err && redisSetTimeout(c, limit) == REDIS_OK
                 ? fcntl(c->fd, F_DUPFD_CLOEXEC, 0)
                 : -1;
    if (fd < 0) {
        snprintf(why, STORE_WHY, "%.200s", c && c->err ? c->errstr : "its socket cannot be used");
    }
    if (c) {
        redisFree(c);
    }
    return fd;
}

redisContext *store_tls_connect(const struct store *s, struct timeval limit, char why[STORE_WHY])
{
    struct pump *p = calloc(1, sizeof *p);
    int pair[2] = {-1, -1};
    if (!p) {
        snprintf(why, STORE_WHY, "memory ran out");
        return NULL;
    }
    p->plain = -1;
    p->server = connect_socket(s, limit, why);
    p->ssl = p->server >= 0 ? handshake(s, p->server, why) : NULL;
    if (!p->ssl) {
        pump_free(p);
        return NULL;
    }
    redisContext *c = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        p->plain = pair[1];
        c = redisConnectFd(pair[0]);
    }
    if (c && start(p) == 0) {
        return c;
    }
    snprintf(why, STORE_WHY, "no socket pair or thread for TLS: %.100s", strerror(errno));
    pump_free(p);
    if (c) {
        redisFree(c); /* closes its own descriptor */
    } else if (pair[0] >= 0) {
        close(pair[0]);
    }
    return NULL;
}

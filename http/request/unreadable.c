/* See unreadable.h. libmicrohttpd 0.9.75 has no callback for this. But it gives its own answers to
 * MHD_queue_response() as we do, and calls it as any shared library calls a function that others
 * can see: by name. The definition here comes before its own.
 *
 *   reply_send() ──────► MHD_queue_response() here ── ours ──────────────► the library's
 *   the library refuses ─►            │ not ours ─► problem ─► reply_send() ─► (ours)
 *
 * Where the library was linked so that it does not ask for the name, its HTML goes out as before.
 */
#include "http/request/unreadable.h"

#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/err.h"
#include "common/log.h"
#include "http/internal.h"
#include "http/answer/reply.h"
#include "http/request/request.h"

typedef enum MHD_Result queue_fn(struct MHD_Connection *c, unsigned status, struct MHD_Response *r);

static _Atomic(struct http_server *) server;

void unreadable_serve(struct http_server *s)
{
    atomic_store(&server, s);
}

static const struct reason {
    unsigned status;
    const char *slug, *title, *detail;
} reasons[] = {
    {413, "length", "the body is too long", "the length of the body has more than 63 bits"},
    {414, "target_length", "the address is too long", "the request line is too long"},
    {431, "header_length", "the header is too long", "the header of this request is too long"},
    {505, "version", "this version of HTTP is not offered here",
     "this service speaks its versions 1.0 and 1.1"},
    {500, "internal", "the request could not be read", "memory for the request ran out"},
    {400, NULL, NULL, "the first line, a header, the length or a chunk of the body is malformed"},
};

/* Statuses that are not listed read as 400. */
static const struct reason *reason_of(unsigned status)
{
    const struct reason *r = reasons;
    while (r->slug && r->status != status) {
        r++;
    }
    return r;
}

/* ---- answering past the library -------------------------------------------------------------- */

/* Would the library send the header of its answer twice? It does so when it refuses a length that
 * is malformed or too large. */
static bool would_send_twice(struct MHD_Connection *c)
{
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    return length && (strlen(length) > 18 || !*length || length[strspn(length, "0123456789")]);
}

/* Has the library no memory for the list of cookies? Then it sends the header twice, too. But it
 * reads on in the header meanwhile, which is gone once its connection is closed. */
static bool has_many_cookies(struct MHD_Connection *c, unsigned status)
{
    return status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE &&
           MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Cookie");
}

/* Sends the whole answer at once: a socket that was not written to has room for it. It reads what
 * the client still sends, since closing with unread data would lose the answer. What the library
 * sends after that reaches nobody. */
static void send_past(struct MHD_Connection *c, const struct buf *answer)
{
    const union MHD_ConnectionInfo *tls = MHD_get_connection_info(
                                       c, MHD_CONNECTION_INFO_GNUTLS_SESSION),
                                   *fd = MHD_get_connection_info(c,
                                                                 MHD_CONNECTION_INFO_CONNECTION_FD);
    char rest[4096];
    if (tls && tls->tls_session) {
        gnutls_record_send(tls->tls_session, answer->data, answer->len);
        if (fd) {
            shutdown(fd->connect_fd, SHUT_WR);
        }
    } else if (fd && send(fd->connect_fd, answer->data, answer->len, MSG_NOSIGNAL) > 0) {
        shutdown(fd->connect_fd, SHUT_WR);
        for (int i = 0; i < 16 && recv(fd->connect_fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++) {
        }
    }
}

static void answer_past(struct MHD_Connection *c, struct reply *reply)
{
    struct buf answer;
    buf_init(&answer, 1 << 16);
    reply_print(reply, &answer);
    if (!answer.failed) {
        send_past(c, &answer);
    }
    buf_release(&answer);
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status)
{
    const struct reason *why = reason_of(status);
    struct http_server *s = atomic_load(&server);
    struct reply reply = {0};
    char id[REQUEST_ID];
    reply_problem(&reply, (int)status, why->slug ? why->slug : err_name(ERR_SYNTAX),
                  why->slug ? why->title : err_title(ERR_SYNTAX), why->detail, NULL, NULL);
    if (s) {
        snprintf(id, sizeof(id), "%s-%lx", s->instance, atomic_fetch_add(&s->requests, 1) + 1);
        reply_header(&reply, "X-Request-Id", id);
        atomic_fetch_add(&s->answers[status / 100], 1);
        log_debug("http", "a request could not be read", "request=%s status=%u", id, status);
    }
    bool cookies = has_many_cookies(connection, status),
         past = cookies || would_send_twice(connection);
    if (past) {
        answer_past(connection, &reply);
    }
    if (past && !cookies) {
        reply_release(&reply);
        return MHD_NO; /* the library closes the connection without an answer of its own */
    }
    return reply_send(&reply, connection) == MHD_YES ? MHD_YES : MHD_NO;
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                                   struct MHD_Response *response)
{
    static _Atomic(queue_fn *) library;
    queue_fn *queue = atomic_load(&library);
    if (!queue) {
        *(void **)&queue = dlsym(RTLD_NEXT, "MHD_queue_response");
        BUG_ON(!queue);
        atomic_store(&library, queue);
    }
    bool ours = reply_is_sent() || status < 400 || status > 599;
    return ours ? queue(connection, status, response) : refuse(connection, status);
}

/* One request from its first line to its answer:
 *
 *   request line ─► header ─► gate ─► body ─► handler ─► answer
 *                                              (on a thread of work.c)
 *
 * What the gate refuses is answered after the body was read and dropped: an answer that comes while
 * the client still sends is lost when the connection is reset. Only a client that asks first
 * (Expect), or whose body is too long to be dropped, is told at once.
 */
#include "http/request/dispatch.h"

#include <ctype.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/log.h"
#include "http/content/accept.h"
#include "http/content/text.h"
#include "http/events/histogram.h"
#include "http/request/form.h"
#include "http/request/gate.h"
#include "http/threads/guard.h"
#include "http/answer/recent.h"
#include "http/request/request.h"
#include "http/request/trail.h"
#include "http/threads/work.h"

/* ---- the handler ----------------------------------------------------------------------------- */

static void handle(struct request *q, struct err *e)
{
    if (q->match.route->handle(q, &q->reply, e) < 0) {
        if (err_http_status(e->code) >= 500 && e->code != ERR_UNAVAILABLE) {
            log_warn("http", "a request failed", "path=%.100s reason=\"%s\"",
                     q->match.route->pattern, e->message);
        }
        reply_error(&q->reply, e, &q->problems);
    }
}

static bool is_shared(const struct request *q)
{
    return !q->refused && !q->unsure && q->target[0] && q->match.route->way == ROUTE_SHARED;
}

/* Finishes an answer that was made now or before: packs it, and applies the request's conditions.
 * Conditions of a change were checked before the change. */
static void complete(struct request *q)
{
    reply_pack(&q->reply, request_header(q, "Accept-Encoding"));
    const char *etag = request_reads_only(q) ? reply_etag(&q->reply) : NULL;
    bool same = etag && accept_etag(request_header(q, "If-None-Match"), etag, true);
    if (etag && request_matches(q, etag, &q->reply) && same) {
        reply_unchanged(&q->reply);
    }
}

/* Runs the handler, which makes q->reply. */
static void run(struct request *q)
{
    struct err e;
    char context[REQUEST_ID + 16];
    double begin = clock_now();
    err_clear(&e);
    snprintf(context, sizeof(context), "request=%s", q->id);
    log_set_thread_context(context);
    if (!q->refused && (q->unsure ? gate_check_session(q, &e) : gate_check_still(q)) == 0) {
        handle(q, &e);
    }
    if (e.code == ERR_UNAVAILABLE) {
        connections_away(q->server->connections, clock_now() - begin);
    }
    if (q->match.route && route_gives_csv(q->match.route)) {
        reply_header(&q->reply, "Vary", "Accept");
    }
    recent_made(q->server->recent, &q->ticket,
                q->reply.status == MHD_HTTP_OK ? q->reply.text : NULL);
    complete(q);
    log_set_thread_context("");
    q->done = true;
}

static void run_item(struct work_item *item)
{
    run((struct request *)item);
}

/* ---- its first line -------------------------------------------------------------------------- */

/* Has the path an encoded slash, backslash or NUL? Decoded it could be taken for another path. A
 * slash within a file's name is allowed, since generated clients encode it. */
static bool is_ambiguous(const char *uri)
{
    const char *path = form_path(uri);
    for (const char *at = path; *at && *at != '?'; at++) {
        if (strncmp(at, "%00", 3) == 0 || strncasecmp(at, "%5c", 3) == 0 ||
            (strncasecmp(at, "%2f", 3) == 0 && !routes_take_slash(path, (size_t)(at - path)))) {
            return true;
        }
    }
    return false;
}

/* Is there a percent sign without two hexadecimal digits after it (RFC 3986, 2.1)? libmicrohttpd
 * leaves it as it is, but a proxy in front may not. */
static bool has_loose_percent(const char *uri)
{
    const char *at = strchr(uri, '%');
    while (at && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2])) {
        at = strchr(at + 3, '%');
    }
    return at != NULL;
}

/* Has the target a plain space, control character or NUL? libmicrohttpd gives a target only up to
 * its first NUL. It replaces the space after the target by a NUL, and the version follows. */
static bool has_control(const char *uri)
{
    const char *end = uri;
    while ((unsigned char)*end > ' ' && *end != 0x7f) {
        end++;
    }
    return *end || strncmp(end + 1, "HTTP/", 5) != 0;
}

static struct request *request_of(struct recent_waiter *w)
{
    return (struct request *)(void *)((char *)w - offsetof(struct request, waiter));
}

static void wait_for_answer(struct recent_waiter *w)
{
    MHD_suspend_connection(request_of(w)->connection);
}

/* Makes libmicrohttpd call dispatch_request() again. */
static void ask_again(struct recent_waiter *w)
{
    MHD_resume_connection(request_of(w)->connection);
}

void *dispatch_uri(void *server, const char *uri, struct MHD_Connection *connection)
{
    struct request *q = calloc(1, sizeof(*q));
    if (q) {
        q->item = (struct work_item){.connection = connection, .run = run_item};
        q->waiter = (struct recent_waiter){.wait = wait_for_answer, .wake = ask_again};
        q->ticket.place = -1;
        q->server = server;
        q->connection = connection;
        q->bad_target = is_ambiguous(uri) || has_loose_percent(uri) || has_control(uri);
        q->long_target = strlen(uri) > HTTP_TARGET_BYTES;
        if (strlen(uri) < sizeof(q->target)) {
            memcpy(q->target, uri, strlen(uri) + 1);
        }
        buf_init(&q->body, HTTP_BODY_BYTES);
    }
    return q;
}

/* ---- body and answer ------------------------------------------------------------------------- */

/* Logs a request that changes something; with --log-level debug every request. */
static void log_answer(const struct request *q)
{
    char path[512];
    log_quote(path, sizeof(path), q->path);
    log_write(request_reads_only(q) ? LOG_DEBUG : LOG_INFO, "http", "answered",
              "request=%s method=%.16s path=%s status=%d seconds=%.4f by=%s", q->id, q->method,
              path, q->reply.status, clock_now() - q->received, auth_role_name(q->who.role));
}

static int send_reply(struct request *q)
{
    int kind = q->reply.status / 100;
    atomic_fetch_add(&q->server->answers[kind >= 1 && kind <= 5 ? kind : 0], 1);
    if (!request_reads_only(q)) {
        recent_changed(q->server->recent);
    }
    if (q->match.route) {
        histogram_add(&q->server->timings[q->match.route - routes], clock_now() - q->received);
    }
    log_answer(q);
    trail_add(q);
    reply_header(&q->reply, "X-Request-Id", q->id);
    return reply_send(&q->reply, q->connection);
}

/* Takes the kept answer, without asking the store again. */
static enum recent_found take_recent(struct request *q)
{
    struct err e;
    struct text *kept = NULL;
    enum recent_found found =
        is_shared(q) ? recent_get(q->server->recent, q->target, &q->waiter, &q->ticket, &kept)
                     : RECENT_MAKE;
    if (found == RECENT_GIVEN &&
        reply_set_shared(&q->reply, MHD_HTTP_OK, kept, "no-store", &e) < 0) {
        found = RECENT_MAKE;
    } else if (found == RECENT_GIVEN) {
        complete(q);
    }
    return found;
}

/* Is the body too long to be read to its end? Then the answer does not wait for it. */
static bool is_endless(const struct request *q)
{
    const char *length = request_header(q, "Content-Length");
    return length && (strlen(length) > 18 || strtoll(length, NULL, 10) > HTTP_DISCARD_BYTES);
}

static int begin(struct request *q, const struct dispatch_line *line)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    q->begun = true;
    q->received = clock_now();
    q->method = line->method;
    q->version = line->version;
    form_read_target(q, line->url);
    form_read_id(q);
    q->guarded = info ? info->socket_context : NULL;
    guard_header_done(q->server->guard, q->guarded);
    if (!gate_pass(q) && (q->closes || request_header(q, "Expect") || is_endless(q))) {
        guard_body_done(q->server->guard, q->guarded);
        return send_reply(q);
    }
    return MHD_YES;
}

/* Notes the body's new size in memory. Returns the memory of all bodies. */
static size_t count_body(struct request *q)
{
    size_t before = q->counted;
    q->counted = q->body.size;
    return atomic_fetch_add(&q->server->body_bytes, q->counted - before) + q->counted - before;
}

static void drop_body(struct request *q)
{
    buf_release(&q->body);
    count_body(q);
}

static void keep_body(struct request *q, const char *bytes, size_t n)
{
    struct err e;
    buf_add(&q->body, bytes, n);
    if (q->body.failed) {
        drop_body(q);
        gate_too_large(q);
    } else if (count_body(q) > HTTP_BODIES_BYTES) {
        drop_body(q);
        err_set(&e, ERR_UNAVAILABLE,
                "the bodies of other requests take the memory that is there for all");
        err_hint(&e, "try again in a moment");
        gate_refuse(q, &e);
    }
}

/* Has the sender of an upload lost its right to it meanwhile? This is asked once a second. */
static bool is_revoked(struct request *q)
{
    double now = clock_now();
    if (now < q->asked + 1) {
        return false;
    }
    q->asked = now;
    return gate_check_still(q) < 0;
}

/* Takes a part of the body. MHD_NO closes the connection. */
static int take_body(struct request *q, const char *bytes, size_t n)
{
    if (q->refused) {
        size_t most = q->body.cap > HTTP_DISCARD_BYTES ? q->body.cap : HTTP_DISCARD_BYTES;
        q->discarded += n;
        return q->discarded <= most ? MHD_YES : MHD_NO;
    }
    if (q->upload.file && is_revoked(q)) { /* the rest may be gigabytes, which nobody wants */
        log_info("http", "an upload ends, since its token was revoked", "request=%s", q->id);
        upload_close(&q->upload);
        return MHD_NO;
    }
    if (q->upload.file) {
        struct err e;
        if (upload_add(&q->upload, bytes, n, &e) < 0) {
            upload_close(&q->upload);
            if (e.code == ERR_IO) {
                log_warn("http", "an upload was not kept", "reason=\"%s\"", e.message);
            }
            gate_refuse(q, &e);
        }
        return MHD_YES;
    }
    keep_body(q, bytes, n);
    return MHD_YES;
}

int dispatch_request(void *server, struct MHD_Connection *connection,
                     const struct dispatch_line *line, const char *upload, size_t *upload_bytes,
                     void **request)
{
    struct request *q = *request;
    (void)server;
    (void)connection;
    if (!q) {
        return MHD_NO; /* memory ran out */
    }
    if (!q->begun) {
        return begin(q, line);
    }
    if (*upload_bytes > 0) {
        int taken = take_body(q, upload, *upload_bytes);
        *upload_bytes = 0;
        return taken;
    }
    if (q->done) { /* resumed */
        return send_reply(q);
    }
    guard_body_done(q->server->guard, q->guarded);
    enum recent_found found = take_recent(q);
    if (found != RECENT_MAKE) {
        return found == RECENT_GIVEN ? send_reply(q) : MHD_YES;
    }
    bool waits = !q->refused && (q->unsure || q->match.route->way != ROUTE_QUICK);
    if (waits && work_add(q->server->work, &q->item)) {
        return MHD_YES;
    }
    run(q);
    return send_reply(q);
}

void dispatch_done(void *server, void **request)
{
    struct request *q = *request;
    (void)server;
    if (q) {
        if (q->begun) {
            guard_answered(q->server->guard, q->guarded);
        }
        reply_release(&q->reply);
        jsonx_problems_release(&q->problems);
        json_decref(q->words);
        drop_body(q);
        upload_close(&q->upload);
        free(q);
        *request = NULL;
    }
}

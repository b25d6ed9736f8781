/* One request from its first line to its answer:
 *
 *   request line ─► header ─► gate: host, route, origin, role, size, query ─► body ─► handler ─► answer
 *                                                                   (on a thread of work.c)
 *
 * What the gate refuses is answered after the body was read and dropped: an answer that comes while
 * the client still sends is lost when the connection is reset. Only a client that asks first
 * (Expect: 100-continue) is told at once. The gate looks at the host before anything else, so that
 * a page of a rebound name learns nothing.
 */
#include "http/dispatch.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/log.h"
#include "http/guard.h"
#include "http/recent.h"
#include "http/request.h"
#include "http/work.h"

enum { PROBLEM_BYTES = 480 };

/* The handler: makes q->reply. */
static void run(struct request *q)
{
    struct err e;
    err_clear(&e);
    if (!q->refused && q->match.route->handle(q, &q->reply, &e) < 0) {
        if (err_http_status(e.code) >= 500 && e.code != ERR_UNAVAILABLE) {
            log_warn("http", "a request failed", "path=%.100s reason=\"%s\"",
                     q->match.route->pattern, e.message);
        }
        reply_error(&q->reply, &e, &q->problems);
    }
    q->done = true;
}

static void run_item(struct work_item *item)
{
    run((struct request *)item);
}

/* An encoded slash, backslash or NUL: decoded it would be taken for another path than the one that
 * was meant. */
static bool is_ambiguous(const char *uri)
{
    for (const char *at = uri; *at && *at != '?'; at++) {
        if (*at == '%' && (strncmp(at, "%00", 3) == 0 || strncasecmp(at, "%2f", 3) == 0 ||
                           strncasecmp(at, "%5c", 3) == 0)) {
            return true;
        }
    }
    return false;
}

void *dispatch_uri(void *server, const char *uri, struct MHD_Connection *connection)
{
    struct request *q = calloc(1, sizeof(*q));
    if (q) {
        q->item = (struct work_item){.connection = connection, .run = run_item};
        q->server = server;
        q->connection = connection;
        q->bad_path = is_ambiguous(uri);
        buf_init(&q->body, HTTP_BODY_BYTES);
    }
    return q;
}

static bool is_safe(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* ---- the gate: 0, or the problem stands in q->reply ------------------------------------------ */

static int refuse(struct request *q, const struct err *e)
{
    reply_error(&q->reply, e, &q->problems);
    q->refused = true;
    return -1;
}

/* Two names for one server: a proxy in front may have gone by the other one (RFC 9112, 3.2). */
static enum MHD_Result count_hosts(void *count, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    *(int *)count += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

static int check_address(struct request *q)
{
    struct err e;
    int hosts = 0;
    const char *host = request_header(q, "Host");
    MHD_get_connection_values(q->connection, MHD_HEADER_KIND, count_hosts, &hosts);
    if (hosts > 1) {
        err_set(&e, ERR_SYNTAX, "this request has %d Host headers", hosts);
        return refuse(q, &e);
    }
    if (!hosts_allowed(&q->server->hosts, host)) {
        err_set(&e, ERR_FORBIDDEN, "this service is not offered under the name '%.200s'",
                host ? host : "");
        err_hint(&e, "start it with --allow-host NAME to open it under another name");
        return refuse(q, &e);
    }
    if (q->bad_path) {
        err_set(&e, ERR_SYNTAX, "the path of this request has an encoded slash, backslash or NUL");
        return refuse(q, &e);
    }
    return 0;
}

static int check_route(struct request *q)
{
    struct err e;
    routes_find(q->method, q->path, &q->match);
    if (q->match.route) {
        return 0;
    }
    if (q->match.known_path) {
        char detail[PROBLEM_BYTES];
        snprintf(detail, sizeof(detail), "'%.200s' takes %s, not %.20s", q->path, q->match.allow,
                 q->method);
        reply_problem(&q->reply, 405, "method", "this method is not offered here", detail, NULL,
                      NULL);
        reply_header(&q->reply, "Allow", q->match.allow);
        q->refused = true;
        return -1;
    }
    err_set(&e, ERR_NOT_FOUND, "there is nothing at '%.200s'", q->path);
    err_hint(&e, "/openapi.json lists what there is");
    return refuse(q, &e);
}

/* A page of another origin must not act with the cookie, nor log our user in as somebody else. */
static int check_origin(struct request *q)
{
    struct err e;
    char session[AUTH_TOKEN];
    const char *origin = request_header(q, "Origin");
    bool cookie = auth_cookie(request_header(q, "Cookie"), q->server->port, session);
    if (is_safe(q->method) || request_header(q, "Authorization") || (!cookie && !origin) ||
        hosts_own_origin(origin, request_header(q, "Host"))) {
        return 0;
    }
    err_set(
        &e, ERR_FORBIDDEN,
        "a request with a session cookie that changes something must come from our own page, not from '%.200s'",
        origin ? origin : "(no Origin header)");
    return refuse(q, &e);
}

static int too_many(struct request *q)
{
    reply_problem(&q->reply, 429, "too_many", "too many wrong credentials",
                  "too many tokens were refused within a minute", "wait half a minute", NULL);
    q->refused = true;
    return -1;
}

static int check_role(struct request *q)
{
    struct err e, away;
    enum auth_role least = q->match.route->role;
    if (least == ROLE_NONE) {
        return 0;
    }
    err_clear(&e);
    int known =
        auth_identify(q->server->auth, request_store(q, &away), request_header(q, "Authorization"),
                      request_header(q, "Cookie"), q->server->port, &q->who, &e);
    if (known < 0) {
        return e.code == ERR_UNAUTHORIZED && auth_refused(q->server->auth) ? too_many(q)
                                                                           : refuse(q, &e);
    }
    if (q->who.role == ROLE_NONE) {
        err_set(&e, ERR_UNAUTHORIZED, "this request has no token");
        err_hint(
            &e,
            "send Authorization: Bearer TOKEN; the admin's token is in the file 'token' of the data directory");
        return refuse(q, &e);
    }
    if (q->who.role < least) {
        err_set(&e, ERR_FORBIDDEN, "this needs the role %s, and the token has the role %s",
                auth_role_name(least), auth_role_name(q->who.role));
        return refuse(q, &e);
    }
    return 0;
}

static bool uploads(const struct request *q)
{
    return q->match.route->way == ROUTE_UPLOADS;
}

static int too_large(struct request *q)
{
    struct err e;
    err_set(&e, ERR_TOO_LARGE, "the body is larger than %d bytes",
            uploads(q) ? (int)UPLOAD_BYTES : (int)HTTP_BODY_BYTES);
    buf_release(&q->body);
    return refuse(q, &e);
}

static int check_size(struct request *q)
{
    const char *length = request_header(q, "Content-Length");
    int64_t most = uploads(q) ? UPLOAD_BYTES : HTTP_BODY_BYTES;
    return length && (strlen(length) > 18 || strtoll(length, NULL, 10) > most) ? too_large(q) : 0;
}

static int check_query(struct request *q)
{
    struct err e;
    if (strchr(q->match.route->pattern, '*')) { /* files may carry a version: app.js?v=3 */
        return 0;
    }
    return request_check_query(q, &e) < 0 ? refuse(q, &e) : 0;
}

/* Last, because a file is made for the body. */
static int check_upload(struct request *q)
{
    struct err e;
    const char *type = request_header(q, "Content-Type"), *wanted = q->match.route->request;
    if (!uploads(q)) {
        return 0;
    }
    if (!q->server->hooks.uploads) {
        err_set(&e, ERR_FORBIDDEN,
                "this service takes no programs of users: its operator did not start it with "
                "--allow-programs");
        return refuse(q, &e);
    }
    if (!type || strcasecmp(type, wanted) != 0) {
        char detail[PROBLEM_BYTES];
        snprintf(detail, sizeof(detail), "'%.200s' takes %s, not %.100s", q->path, wanted,
                 type ? type : "a body without Content-Type");
        reply_problem(&q->reply, 415, "media_type", "this type is not taken here", detail, NULL,
                      NULL);
        q->refused = true;
        return -1;
    }
    guard_upload(q->server->guard, q->guarded, UPLOAD_SECONDS);
    return upload_open(&q->upload, q->server->data_dir, &q->server->uploads, &e) < 0 ? refuse(q, &e)
                                                                                     : 0;
}

static bool pass_gate(struct request *q)
{
    return check_address(q) == 0 && check_route(q) == 0 && check_origin(q) == 0 &&
           check_role(q) == 0 && check_size(q) == 0 && check_query(q) == 0 && check_upload(q) == 0;
}

/* ---- body and answer ------------------------------------------------------------------------- */

static bool is_shared(const struct request *q)
{
    return !q->refused && q->match.route->way == ROUTE_SHARED;
}

static bool reads_only(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static int send_reply(struct request *q)
{
    int kind = q->reply.status / 100;
    atomic_fetch_add(&q->server->answers[kind >= 1 && kind <= 5 ? kind : 0], 1);
    if (!reads_only(q->method)) {
        recent_changed(q->server->recent);
    }
    if (!is_shared(q) || q->reply.status != MHD_HTTP_OK || !q->reply.response) {
        return reply_send(&q->reply, q->connection);
    }
    int sent = reply_queue(&q->reply, q->connection);
    recent_keep(q->server->recent, q->path, q->generation, q->reply.response);
    q->reply.response = NULL;
    return sent;
}

/* The cached answer, without asking the store again. */
static bool send_recent(struct request *q, int *sent)
{
    if (!is_shared(q)) {
        return false;
    }
    if (!recent_send(q->server->recent, q->path, q->connection, &q->generation, sent)) {
        return false;
    }
    atomic_fetch_add(&q->server->answers[2], 1);
    return true;
}

static int begin(struct request *q, const char *url, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    q->begun = true;
    q->path = url;
    q->method = method;
    q->guarded = info ? info->socket_context : NULL;
    guard_header_done(q->server->guard, q->guarded);
    if (!pass_gate(q)) {
        const char *expect = request_header(q, "Expect");
        if (expect && strcasecmp(expect, "100-continue") == 0) {
            guard_body_done(q->server->guard, q->guarded);
            return send_reply(q);
        }
    }
    return MHD_YES;
}

/* Takes a part of the body. MHD_NO closes the connection. */
static int take_body(struct request *q, const char *bytes, size_t n)
{
    if (q->refused) {
        q->discarded += n;
        return q->discarded <= HTTP_DISCARD_BYTES ? MHD_YES : MHD_NO;
    }
    if (uploads(q)) {
        struct err e;
        if (upload_add(&q->upload, bytes, n, &e) < 0) {
            upload_close(&q->upload);
            refuse(q, &e);
        }
        return MHD_YES;
    }
    buf_add(&q->body, bytes, n);
    if (q->body.failed) {
        too_large(q);
    }
    return MHD_YES;
}

int dispatch_request(void *server, struct MHD_Connection *connection, const char *url,
                     const char *method, const char *upload, size_t *upload_bytes, void **request)
{
    struct request *q = *request;
    (void)server;
    (void)connection;
    if (!q) {
        return MHD_NO; /* memory ran out */
    }
    if (!q->begun) {
        return begin(q, url, method);
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
    int sent;
    if (send_recent(q, &sent)) {
        return sent;
    }
    if (!q->refused && q->match.route->way != ROUTE_QUICK && work_add(q->server->work, &q->item)) {
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
        buf_release(&q->body);
        upload_close(&q->upload);
        free(q);
        *request = NULL;
    }
}

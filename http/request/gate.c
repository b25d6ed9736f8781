/* The checks of a request's header; see gate.h. Each is 0, or has put the problem into q->reply. */
#include "http/request/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/request/form.h"
#include "http/threads/guard.h"

int gate_refuse(struct request *q, const struct err *e)
{
    reply_error(&q->reply, e, &q->problems);
    q->refused = true;
    return -1;
}

/* OPTIONS is answered here, for any known path and for the server as a whole ("*"). */
static int answer_options(struct request *q)
{
    struct err e;
    bool whole = strcmp(q->path, "*") == 0;
    if (reply_set_empty(&q->reply, 204, &e) < 0) {
        return gate_refuse(q, &e);
    }
    reply_header(&q->reply, "Allow", whole ? ROUTE_METHODS : q->match.allow);
    q->refused = true;
    return -1;
}

static int check_route(struct request *q)
{
    struct err e;
    routes_find(q->method, q->path, &q->match);
    if (q->match.route) {
        return 0;
    }
    if (strcmp(q->method, "OPTIONS") == 0 && (q->match.known_path || strcmp(q->path, "*") == 0)) {
        return answer_options(q);
    }
    if (q->match.known_path) {
        char detail[PROBLEM_BYTES];
        snprintf(detail, sizeof(detail), "'%.200s' takes %s, not %.20s", q->path, q->match.allow,
                 q->method);
        form_refuse(q, 405, "method", "this method is not offered here", detail, NULL);
        reply_header(&q->reply, "Allow", q->match.allow);
        return -1;
    }
    err_set(&e, ERR_NOT_FOUND, "there is nothing at '%.200s'", q->path);
    err_hint(&e, "/openapi.json lists what there is");
    return gate_refuse(q, &e);
}

/* The user that a proxy names; NULL: no trusted proxy names one. */
static const char *proxy_says(const struct request *q)
{
    const struct proxy *p = &q->server->proxy;
    bool believed =
        p->header[0] && !request_header(q, "Authorization") && proxy_trusts(p, request_address(q));
    return believed ? request_header(q, p->header) : NULL;
}

/* Refuses other origins. Their pages must not act with the cookie or the proxy's sign-in, which a
 * browser sends by itself, nor log our user in as somebody else. */
static int check_origin(struct request *q)
{
    struct err e;
    char session[AUTH_TOKEN];
    const char *origin = request_header(q, "Origin");
    bool cookie =
        auth_cookie(request_header(q, "Cookie"), q->server->port, session) || proxy_says(q);
    if (request_reads_only(q) || request_header(q, "Authorization") || (!cookie && !origin) ||
        hosts_own_origin(origin, q->host)) {
        return 0;
    }
    err_set(&e, ERR_FORBIDDEN,
            "a request of a browser that changes something must come from our own page, not from "
            "'%.200s'",
            origin ? origin : "(no Origin header)");
    return gate_refuse(q, &e);
}

static int too_many(struct request *q)
{
    return form_refuse(q, 429, "too_many", "too many wrong credentials",
                       "too many tokens were refused within a minute", "wait half a minute");
}

/* Judges the result of auth_identify(), `known`. */
static int judge(struct request *q, int known, struct err *e)
{
    enum auth_role least = q->match.route->role;
    if (known < 0) {
        return e->code == ERR_UNAUTHORIZED && auth_refused(q->server->auth) ? too_many(q)
                                                                            : gate_refuse(q, e);
    }
    if (q->who.role == ROLE_NONE) {
        err_set(e, ERR_UNAUTHORIZED, "this request has no token");
        err_hint(
            e,
            "send Authorization: Bearer TOKEN; the admin's token is in the file 'token' of the "
            "data directory");
        return gate_refuse(q, e);
    }
    if (q->who.role < least) {
        err_set(e, ERR_FORBIDDEN, "this needs the role %s, and the token has the role %s",
                auth_role_name(least), auth_role_name(q->who.role));
        return gate_refuse(q, e);
    }
    return 0;
}

static int identify(struct request *q, struct store *store, struct err *e)
{
    const char *header = q->server->proxy.header, *name = proxy_says(q);
    err_clear(e);
    if (name && request_headers(q, header) > 1) {
        return err_set(e, ERR_SYNTAX, "this request has several %s headers", header);
    }
    if (name) {
        return proxy_identify(&q->server->proxy, name, &q->who, e);
    }
    return auth_identify(q->server->auth, store, request_header(q, "Authorization"),
                         request_header(q, "Cookie"), q->server->port, &q->who, e);
}

/* Checks the role without waiting for the store, since the gate runs on an event thread. */
static int check_role(struct request *q)
{
    struct err e;
    if (q->match.route->role == ROLE_NONE) {
        return 0;
    }
    int known = identify(q, NULL, &e);
    q->unsure = known == -ERR_UNAVAILABLE;
    return q->unsure ? 0 : judge(q, known, &e);
}

int gate_check_session(struct request *q, struct err *e)
{
    struct store *store = request_store(q, e);
    int known = store ? identify(q, store, e) : -(int)e->code;
    return judge(q, known, e);
}

int gate_check_still(struct request *q)
{
    struct err e;
    if (request_reads_only(q) || q->match.route->role == ROLE_NONE) {
        return 0;
    }
    if (auth_still(q->server->auth, &q->who)) {
        return judge(q, 0, &e);
    }
    err_set(&e, ERR_UNAUTHORIZED, "the token was revoked or has expired while the request came");
    return gate_refuse(q, &e);
}

static bool uploads(const struct request *q)
{
    return route_uploads(q->match.route);
}

static bool uploads_data(const struct request *q)
{
    return q->match.route->way == ROUTE_UPLOADS_DATA;
}

static size_t most_bytes(const struct request *q)
{
    return uploads_data(q)                     ? (size_t)UPLOAD_DATA_BYTES
           : uploads(q)                        ? (size_t)UPLOAD_PROGRAM_BYTES
           : q->match.route->role == ROLE_NONE ? (size_t)HTTP_STRANGER_BYTES
                                               : (size_t)HTTP_BODY_BYTES;
}

int gate_too_large(struct request *q)
{
    struct err e;
    err_set(&e, ERR_TOO_LARGE, "the body is larger than %zu bytes", most_bytes(q));
    return gate_refuse(q, &e);
}

static int check_size(struct request *q)
{
    const char *length = request_header(q, "Content-Length");
    q->body.cap = most_bytes(q);
    return length && (strlen(length) > 18 || strtoll(length, NULL, 10) > (long long)most_bytes(q))
               ? gate_too_large(q)
               : 0;
}

static int check_query(struct request *q)
{
    struct err e;
    if (strchr(q->match.route->pattern, '*')) { /* files may have a version: app.js?v=3 */
        return 0;
    }
    return request_check_query(q, &e) < 0 ? gate_refuse(q, &e) : 0;
}

static bool takes(const struct request *q, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    if (uploads_data(q) ? hooks->dataset_add != NULL : hooks->uploads) {
        return true;
    }
    err_set(e, ERR_FORBIDDEN, "%s",
            uploads_data(q)
                ? "this service takes no data sets: its operator started it with --data-uploads 0"
                : "this service takes no programs of users: its operator did not start it with "
                  "--allow-programs");
    return false;
}

/* Is it the type of an archive? Generated clients and checkers know only application/octet-stream,
 * which the description names. */
static bool is_archive(const char *type)
{
    return type && (strcasecmp(type, "application/x-tar") == 0 ||
                    strcasecmp(type, "application/octet-stream") == 0);
}

/* Checks an upload. This comes last, because it makes a file for the body. */
static int check_upload(struct request *q)
{
    struct err e;
    const char *type = request_header(q, "Content-Type");
    if (!uploads(q)) {
        return 0;
    }
    if (!takes(q, &e)) {
        return gate_refuse(q, &e);
    }
    if (!is_archive(type)) {
        char detail[PROBLEM_BYTES];
        snprintf(detail, sizeof(detail), "'%.200s' takes application/x-tar, not %.100s", q->path,
                 type ? type : "a body without Content-Type");
        return form_refuse(q, 415, "media_type", "this type is not taken here", detail, NULL);
    }
    if (q->unsure) { /* an unknown sender gets no file; the page's session is known by then */
        err_set(&e, ERR_UNAVAILABLE, "this session is not known yet");
        err_hint(&e, "send a GET first");
        return gate_refuse(q, &e);
    }
    guard_upload(q->server->guard, q->guarded, UPLOAD_SECONDS);
    return upload_open(&q->upload, q->server->data_dir, (int64_t)most_bytes(q), &q->server->uploads,
                       &e) < 0
               ? gate_refuse(q, &e)
               : 0;
}

bool gate_pass(struct request *q)
{
    return form_check_framing(q) == 0 && form_check_length(q) == 0 && form_check_host(q) == 0 &&
           form_check_expectation(q) == 0 && check_route(q) == 0 && check_origin(q) == 0 &&
           check_role(q) == 0 && check_size(q) == 0 && form_check_conditions(q) == 0 &&
           form_check_types(q) == 0 && check_query(q) == 0 && check_upload(q) == 0;
}

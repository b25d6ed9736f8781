/* Routes that belong to no job or node: catalogue, data sets, events, sessions and links, health,
 * and the files of the page. */
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "http/api/api.h"
#include "http/content/files.h"
#include "http/content/text.h"
#include "http/events/stream.h"
#include "http/request/request.h"
#include "job/spec/catalog.h"
#include "job/network/network.h"

static const char vendor_dir[] = "/usr/share/javascript/dygraphs";

/* ---- catalogue, data sets, events ------------------------------------------------------------ */

static json_t *presets_json(void)
{
    json_t *list = json_array();
    int n = 0;
    const char *const *names = network_presets(&n);
    for (int i = 0; i < n; i++) {
        struct jsonx_problems problems = {0};
        struct network net;
        json_t *name = json_string(names[i]), *model = network_preset(names[i]);
        memset(&net, 0, sizeof(net));
        if (network_build(&net, name, "/model", &problems) == 0) {
            json_array_append_new(list, json_pack("{s:s, s:I, s:O}", "name", names[i], "parameters",
                                                  (json_int_t)net.n_params, "model", model));
        }
        network_release(&net);
        jsonx_problems_release(&problems);
        json_decref(name);
        json_decref(model);
    }
    return list;
}

static pthread_once_t catalog_once = PTHREAD_ONCE_INIT;
static struct text *catalog_text; /* kept until the process ends; NULL: memory ran out */

static void make_catalog(void)
{
    size_t len = 0;
    json_t *body = catalog_json();
    json_object_set_new(body, "preset", presets_json());
    char *text = jsonx_dump(body, false, &len);
    json_decref(body);
    catalog_text = text_new("application/json", text, len);
}

/* The catalogue never changes while the service runs, so its text is made once. */
int api_catalog(struct request *q, struct reply *out, struct err *e)
{
    (void)q;
    pthread_once(&catalog_once, make_catalog);
    return reply_set_shared(out, 200, catalog_text ? text_ref(catalog_text) : NULL, "no-store", e);
}

int api_datasets(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    err_clear(e);
    json_t *list = hooks->datasets ? hooks->datasets(hooks->ctx, e) : json_array();
    if (!list) {
        return e->code ? -(int)e->code : err_set(e, ERR_INTERNAL, "cannot list the data sets");
    }
    return reply_set_json(out, 200, json_pack("{s:o}", "datasets", list), e);
}

int api_dataset(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    const char *path = request_param(q, "path");
    if (!path || !*path || path[0] == '-') {
        return err_set(e, ERR_NOT_FOUND, "there is no data set '%.80s'", path ? path : "");
    }
    if (!hooks->dataset) {
        return err_set(e, ERR_UNSUPPORTED, "data sets are not shown here");
    }
    err_clear(e);
    json_t *shown = hooks->dataset(hooks->ctx, path, e);
    if (!shown && q->who.role < ROLE_OPERATOR) {
        e->hint[0] = 0; /* the hint names folders of this host */
    }
    return shown ? reply_set_json(out, 200, shown, e) : -(int)e->code;
}

/* While the store is away, whether there is such a job is not known: its events may come later. */
int api_events(struct request *q, struct reply *out, struct err *e)
{
    struct err away;
    enum job_state state;
    const char *job = request_param(q, "job");
    struct store *store = request_store(q, &away);
    if (job && !request_is_job(job)) {
        return err_set(e, ERR_NOT_FOUND, "there is no job '%.60s'", job);
    }
    if (job && store && store_job_state(store, job, &state, e) == -ERR_NOT_FOUND) {
        return -(int)ERR_NOT_FOUND;
    }
    err_clear(e);
    if (strcmp(q->method, "HEAD") == 0) {
        return stream_head(out, e);
    }
    return stream_open(q->server->stream, store, q->connection, &q->who,
                       request_header(q, "Last-Event-ID"), job, out, e);
}

/* ---- sessions and links ---------------------------------------------------------------------- */

static json_t *identity_json(const struct identity *who)
{
    return json_pack("{s:s, s:s, s:s, s:b}", "role", auth_role_name(who->role), "name", who->name,
                     "owner", who->owner, "cookie", who->by_cookie);
}

int api_session_get(struct request *q, struct reply *out, struct err *e)
{
    return reply_set_json(out, 200, identity_json(&q->who), e);
}

/* Sets the session's cookie. With TLS, ours or a proxy's, the cookie must not travel without it. */
static void set_cookie(struct request *q, struct reply *out, const char *session, int seconds)
{
    char cookie[256];
    const char *origin = request_header(q, "Origin");
    bool tls = q->server->tls || (origin && strncmp(origin, "https:", 6) == 0);
    snprintf(cookie, sizeof(cookie),
             "evenstep_%d=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s", q->server->port,
             session, seconds, tls ? "; Secure" : "");
    reply_header(out, "Set-Cookie", cookie);
}

int api_session_start(struct request *q, struct reply *out, struct err *e)
{
    static const char *const keys[] = {"token", NULL};
    char session[AUTH_TOKEN];
    struct err away;
    json_t *body = request_object(q, keys, e);
    if (!body) {
        return -(int)e->code;
    }
    const char *token = json_string_value(json_object_get(body, "token"));
    int made;
    if (!token) {
        jsonx_problem(&q->problems, "/token",
                      "expected a token, or the code of a link, as a string");
        made = request_not_valid(q, "the body", e);
    } else {
        made = auth_session_start(q->server->auth, request_store(q, &away), token, session, &q->who,
                                  e);
    }
    json_decref(body);
    if (made == -ERR_UNAUTHORIZED && auth_refused(q->server->auth)) {
        reply_problem(out, 429, "too_many", "too many wrong credentials",
                      "too many tokens were refused within a minute", "wait half a minute", NULL);
        return 0;
    }
    if (made < 0 || (made = reply_set_json(out, 201, identity_json(&q->who), e)) < 0) {
        return made;
    }
    set_cookie(q, out, session, AUTH_SESSION_SECONDS);
    return 0;
}

int api_session_end(struct request *q, struct reply *out, struct err *e)
{
    struct err away;
    int ended = auth_session_end(q->server->auth, request_store(q, &away),
                                 request_header(q, "Cookie"), q->server->port, e);
    if (ended < 0 || (ended = reply_set_empty(out, 204, e)) < 0) {
        return ended;
    }
    set_cookie(q, out, "", 0);
    return 0;
}

static enum auth_role link_role(struct request *q, const json_t *body)
{
    json_t *role = json_object_get(body, "role");
    const char *name = json_string_value(role);
    for (int i = ROLE_VIEWER; name && i <= ROLE_ADMIN; i++) {
        if (strcmp(name, auth_role_name((enum auth_role)i)) == 0) {
            return (enum auth_role)i;
        }
    }
    if (role) {
        jsonx_problem(&q->problems, "/role", "expected viewer, operator, programs or admin");
        return ROLE_NONE;
    }
    return ROLE_ADMIN;
}

int api_link(struct request *q, struct reply *out, struct err *e)
{
    static const char *const keys[] = {"role", NULL};
    char code[AUTH_TOKEN], url[HOSTS_LINK];
    if (q->who.by_proxy) { /* a session would outlive the proxy's sign-in */
        return err_set(e, ERR_FORBIDDEN, "people who come through the proxy sign in there");
    }
    json_t *body = q->body.len > 0 ? request_object(q, keys, e) : json_object();
    if (!body) {
        return -(int)e->code;
    }
    enum auth_role role = link_role(q, body);
    json_decref(body);
    if (role == ROLE_NONE) {
        return request_not_valid(q, "the body", e);
    }
    struct store *store = request_store(q, e);
    if (!store || auth_link(store, role, q->who.token, code, e) < 0) {
        return -(int)e->code;
    }
    hosts_link(&q->server->hosts, code, url);
    return reply_set_json(out, 201,
                          json_pack("{s:s, s:s, s:i}", "url", url, "role", auth_role_name(role),
                                    "seconds", AUTH_LINK_SECONDS),
                          e);
}

/* ---- health ---------------------------------------------------------------------------------- */

int api_healthz(struct request *q, struct reply *out, struct err *e)
{
    (void)q;
    return reply_set_json(out, 200, json_pack("{s:s}", "status", "ok"), e);
}

int api_readyz(struct request *q, struct reply *out, struct err *e)
{
    struct err away;
    struct store *store = request_store(q, &away);
    bool ready = store && store_ping(store, &away) >= 0;
    if (!ready) { /* open without a token, so it does not say why */
        return err_set(e, ERR_UNAVAILABLE, "the store cannot be reached");
    }
    return reply_set_json(out, 200, json_pack("{s:s}", "status", "ready"), e);
}

/* ---- files of the page ----------------------------------------------------------------------- */

int api_static(struct request *q, struct reply *out, struct err *e)
{
    return files_static(q, q->server->static_dir,
                        strcmp(q->path, "/") == 0 ? "/index.html" : q->path, out, e);
}

int api_vendor(struct request *q, struct reply *out, struct err *e)
{
    return files_static(q, vendor_dir, q->path + strlen("/vendor"), out, e);
}

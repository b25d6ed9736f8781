/* Nodes: list, show, and what an operator asks of them. Drain and disable are marks in the store
 * that the scheduler reads; a job that runs on a drained node goes on.
 */
#include <stdio.h>

#include "common/clock.h"
#include "http/api/api.h"
#include "http/content/csv.h"
#include "http/request/request.h"
#include "job/node/node.h"
#include "store/loads.h"

enum { VERSION = 64, LOAD_SECONDS = 1800 };

/* A node's version: its state and its job, without the figures of its heartbeats. */
static void version_of(const json_t *node, char out[VERSION])
{
    snprintf(out, VERSION, "%.20s-%.20s", node_state(node), node_user(node));
}

static int answer_node(struct request *q, struct reply *out, struct store *store, struct err *e)
{
    char version[VERSION];
    json_t *node = store_node_get(store, q->match.args[0], e);
    if (!node) {
        return -(int)e->code;
    }
    version_of(node, version);
    int rc = reply_set_json(out, 200, node, e);
    reply_version(out, version);
    return rc;
}

int api_nodes_list(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    json_t *nodes = store ? store_nodes(store, e) : NULL,
           *refused = nodes ? store_refusals(store, e) : NULL;
    if (!refused) {
        json_decref(nodes);
        return -(int)e->code;
    }
    return reply_set_json(out, 200, json_pack("{s:o, s:o}", "nodes", nodes, "refused", refused), e);
}

int api_node_get(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    return store ? answer_node(q, out, store, e) : -(int)e->code;
}

/* The load of a node, which is kept after the node has gone. */
int api_node_load(struct request *q, struct reply *out, struct err *e)
{
    const char *name = q->match.args[0];
    struct store *store = request_store(q, e);
    struct err gone = {0};
    if (!store) {
        return -(int)e->code;
    }
    double now = (double)clock_wall_ms() / 1000,
           seconds = (double)request_int(q, "seconds", LOAD_SECONDS);
    json_t *node = store_node_get(store, name, &gone),
           *body = store_loads(store, name, now - seconds, e);
    bool there = node || json_array_size(json_object_get(body, "at")) > 0;
    json_decref(node);
    if (!there) {
        json_decref(body);
        *e = gone;
        return -(int)e->code;
    }
    if (!body) {
        return -(int)e->code;
    }
    json_object_set_new(body, "now", json_real(now));
    return request_wants_csv(q) ? csv_reply(out, csv_of_load(body), body, e)
                                : reply_set_json(out, 200, body, e);
}

/* Sets both marks; NULL removes one. */
static int mark(struct request *q, struct reply *out, const char *drained, const char *disabled,
                struct err *e)
{
    struct store *store = request_store(q, e);
    const char *name = q->match.args[0];
    if (!store || store_node_set(store, name, "drained", drained, e) < 0 ||
        store_node_set(store, name, "disabled", disabled, e) < 0) {
        return -(int)e->code;
    }
    if (q->server->hooks.wake) {
        q->server->hooks.wake(q->server->hooks.ctx);
    }
    return answer_node(q, out, store, e);
}

int api_node_drain(struct request *q, struct reply *out, struct err *e)
{
    return mark(q, out, "1", NULL, e);
}

/* Also ends a rest. */
int api_node_enable(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    int rc = store ? store_node_well(store, q->match.args[0], e) : -(int)e->code;
    return rc < 0 ? rc : mark(q, out, NULL, NULL, e);
}

int api_node_disable(struct request *q, struct reply *out, struct err *e)
{
    return mark(q, out, NULL, "1", e);
}

int api_node_delete(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    const char *name = q->match.args[0];
    char version[VERSION], etag[VERSION + 2];
    json_t *node = store ? store_node_get(store, name, e) : NULL;
    if (!node) {
        return -(int)e->code;
    }
    version_of(node, version);
    snprintf(etag, sizeof(etag), "\"%s\"", version);
    bool silent = store_node_silent(node), used = *node_user(node);
    json_decref(node);
    if (!silent || used) {
        err_set(e, ERR_CONFLICT, "cannot forget node '%s': it %s", name,
                used ? "is used by a job" : "still reports");
        return err_hint(e, used ? "cancel the job first" : "stop its agent first");
    }
    if (!request_matches(q, etag, out)) {
        return 0;
    }
    return store_node_remove(store, name, e) < 0 ? -(int)e->code : reply_set_empty(out, 204, e);
}

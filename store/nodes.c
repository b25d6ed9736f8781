/* Nodes, who uses them, and what is known of their speed.
 *
 * A node is a hash: its document, the time of its last heartbeat by Redis's clock, and what an
 * operator asked (drained, disabled). Its state is computed when it is read, never stored: a node
 * that stops sending becomes lost without any process marking it. Who uses it is in claims.c.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "job/node/node.h"

enum { GPU_SECONDS = 10 }; /* GPU statistics of a silent node expire */

static int count_and_free(redisReply *r, int64_t *n, struct err *e)
{
    if (!r) {
        return store_failed(e);
    }
    int rc = reply_int(r, n, e);
    freeReplyObject(r);
    return rc;
}

struct script node_put_script = {.text = LUA_CLOCK LUA_NODE_EVENT LUA_NODE_PUT, .by_name = true};

int store_nodes_put(struct store *s, const json_t *nodes, struct err *e)
{
    size_t n = json_array_size(nodes), made = 0;
    char(*node_keys)[STORE_KEY] = calloc(n + 1, sizeof *node_keys),
    **texts = calloc(n + 1, sizeof *texts);
    const char **keys = calloc(n + 2, sizeof *keys), **args = calloc(2 * n + 2, sizeof *args);
    char lost[16];
    int rc = node_keys && texts && keys && args
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot register nodes: memory ran out");
    for (; rc == 0 && made < n; made++) {
        const json_t *node = json_array_get(nodes, made);
        const char *name = node_name(node);
        if ((rc = key_named(node_keys[made], KEY_NODE, name, e)) < 0) {
            break;
        }
        if (!(texts[made] = store_dump(node, "a node", e))) {
            rc = store_failed(e);
            break;
        }
        keys[made + 2] = node_keys[made];
        args[2 * made + 2] = name;
        args[2 * made + 3] = texts[made];
    }
    if (rc == 0 && n > 0) {
        int64_t done = 0;
        keys[0] = key_text(KEY_NODES);
        keys[1] = key_text(KEY_EVENTS);
        args[0] = STORE_EVENTS;
        args[1] = lost;
        snprintf(lost, sizeof lost, "%d", (int)STORE_NODE_LOST_MS);
        rc = count_and_free(
            store_script(s, &node_put_script, (int)n + 2, keys, 2 * (int)n + 2, args, NULL, e),
            &done, e);
    }
    for (size_t i = 0; texts && i < made; i++) {
        free(texts[i]);
    }
    free(texts);
    free(node_keys);
    free(keys);
    free(args);
    return rc;
}

int store_node_put(struct store *s, const json_t *node, struct err *e)
{
    json_t *nodes = json_pack("[O]", node);
    int rc = store_nodes_put(s, nodes, e);
    json_decref(nodes);
    return rc;
}

struct script node_gpu_script = {.text = LUA_NODE_GPU, .by_name = true};

int store_gpu_put(struct store *s, const char *node, const json_t *gpu, struct err *e)
{
    char key[STORE_KEY], seconds[16];
    int rc = key_named(key, KEY_GPU, node, e);
    if (rc < 0) {
        return rc;
    }
    char *text = store_dump(gpu, "a GPU", e);
    if (!text) {
        return store_failed(e);
    }
    const char *keys[] = {key};
    const char *args[] = {text, seconds};
    int64_t n = 0;
    snprintf(seconds, sizeof seconds, "%d", GPU_SECONDS);
    rc = count_and_free(store_script(s, &node_gpu_script, 1, keys, 2, args, NULL, e), &n, e);
    free(text);
    return rc;
}

static struct script read_script = {.text = LUA_CLOCK LUA_NODE_READ};

static bool is_set(const redisReply *hash, const char *field)
{
    const char *text = reply_field(hash, field, NULL);
    return text && strcmp(text, "") && strcmp(text, "0") && strcmp(text, "false");
}

/* Adds the failures of attempts on the node (node_rest.c). True: it rests. */
static bool add_rest(json_t *node, const redisReply *hash, double now)
{
    const char *failures = reply_field(hash, "failures", NULL),
               *until = reply_field(hash, "rest_until", NULL),
               *reason = reply_field(hash, "failure", NULL);
    double left = until ? ((double)strtoll(until, NULL, 10) - now) / 1000 : 0;
    json_object_set_new(node, "failures", json_integer(failures ? strtoll(failures, NULL, 10) : 0));
    json_object_set_new(
        node, "rest",
        left > 0 ? json_pack("{s:f, s:s}", "seconds", left, "reason", reason ? reason : "")
                 : json_null());
    return left > 0;
}

static json_t *node_json(const redisReply *one, double now)
{
    if (one->type != REDIS_REPLY_ARRAY || one->elements != 4) {
        return NULL;
    }
    const redisReply *hash = one->element[1];
    size_t len = 0;
    const char *text = reply_field(hash, "json", &len), *at = reply_field(hash, "at", NULL),
               *job = NULL;
    json_t *node = text ? jsonx_parse(text, len, NULL) : NULL;
    if (!json_is_object(node)) {
        json_decref(node);
        return NULL;
    }
    double age = at ? now - (double)strtoll(at, NULL, 10) : 1e12;
    if (reply_text(one->element[2], &job, NULL, NULL) <= 0) {
        job = NULL;
    }
    const char *gpu = NULL;
    size_t gpu_bytes = 0;
    json_t *told = reply_text(one->element[3], &gpu, &gpu_bytes, NULL) > 0
                       ? jsonx_parse(gpu, gpu_bytes, NULL)
                       : NULL;
    if (told) {
        json_object_set_new(node, "gpu", told);
    }
    bool drained = is_set(hash, "drained"), disabled = is_set(hash, "disabled"),
         leaving = node_is_leaving(node), rests = add_rest(node, hash, now);
    const char *state = disabled                   ? "disabled"
                        : age > STORE_NODE_LOST_MS ? "lost"
                        : drained || leaving       ? "draining"
                        : job                      ? "busy"
                        : rests                    ? "resting"
                                                   : "ready";
    json_object_set_new(node, "state", json_string(state));
    json_object_set_new(node, "job", job ? json_string(job) : json_null());
    json_object_set_new(node, "drained", json_boolean(drained));
    json_object_set_new(node, "disabled", json_boolean(disabled));
    json_object_set_new(node, "silent", json_boolean(age > STORE_NODE_LOST_MS));
    json_object_set_new(node, "heartbeat_age_seconds", json_real(age < 0 ? 0 : age / 1000));
    return node;
}

/* Reads the node `name`; NULL: all nodes. */
static json_t *read_nodes(struct store *s, const char *name, struct err *e)
{
    char nodes[STORE_KEY], claims[STORE_KEY], gpus[STORE_KEY];
    key_prefix(nodes, KEY_NODE);
    key_prefix(claims, KEY_CLAIM);
    key_prefix(gpus, KEY_GPU);
    const char *keys[] = {key_text(KEY_NODES)}, *args[] = {nodes, claims, gpus, name};
    redisReply *r = store_script(s, &read_script, 1, keys, name ? 4 : 3, args, NULL, e);
    double clock = 0;
    int count = r ? reply_record(r, 1, e) : -1;
    json_t *out = count > 0 && reply_clock(r->element[0], &clock, e) == 0 ? json_array() : NULL;
    for (int i = 1; out && i < count; i++) {
        json_t *node = node_json(r->element[i], clock);
        if (node) {
            json_array_append_new(out, node);
        }
    }
    freeReplyObject(r);
    return out;
}

static int no_node(const char *name, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no node '%.128s'", name);
}

json_t *store_node_get(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    if (key_named(key, KEY_NODE, name, e) < 0) {
        no_node(name ? name : "", e);
        return NULL;
    }
    json_t *all = read_nodes(s, name, e);
    json_t *node = json_incref(json_array_get(all, 0));
    if (all && !node) {
        no_node(name, e);
    }
    json_decref(all);
    return node;
}

static int by_name(const void *a, const void *b)
{
    json_t *const *x = a, *const *y = b;
    return strcmp(node_name(*x), node_name(*y));
}

json_t *store_nodes(struct store *s, struct err *e)
{
    json_t *all = read_nodes(s, NULL, e);
    size_t n = json_array_size(all);
    json_t **items = n ? calloc(n, sizeof *items) : NULL, *out = NULL;
    if (!n) {
        return all;
    }
    if (!items || !(out = json_array())) {
        err_set(e, ERR_MEMORY, "cannot list the nodes: memory ran out");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = json_array_get(all, i);
    }
    qsort(items, n, sizeof *items, by_name);
    for (size_t i = 0; i < n; i++) {
        json_array_append(out, items[i]);
    }
out:
    free(items);
    json_decref(all);
    return out;
}

bool store_node_silent(const json_t *node)
{
    return 1000 * node_beat_age(node) > STORE_NODE_LOST_MS;
}

struct script node_remove_script = {.text = LUA_NODE_EVENT LUA_NODE_REMOVE, .by_name = true};

int store_node_remove(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_named(key, KEY_NODE, name, e);
    if (rc < 0) {
        return no_node(name ? name : "", e);
    }
    const char *keys[] = {key, key_text(KEY_NODES), key_text(KEY_EVENTS)};
    const char *args[] = {name, STORE_EVENTS};
    int64_t n = 0;
    rc = count_and_free(store_script(s, &node_remove_script, 3, keys, 2, args, NULL, e), &n, e);
    return rc < 0 ? rc : n ? 0 : no_node(name, e);
}

static struct script set_script = {.text = LUA_NODE_EVENT LUA_NODE_SET};

int store_node_set(struct store *s, const char *name, const char *field, const char *value,
                   struct err *e)
{
    char key[STORE_KEY];
    int rc = key_named(key, KEY_NODE, name, e);
    if (rc < 0) {
        return no_node(name ? name : "", e);
    }
    if (!strcmp(field, "json") || !strcmp(field, "at")) {
        return err_set(e, ERR_INVALID, "the field '%s' of a node is not set by hand", field);
    }
    const char *keys[] = {key, key_text(KEY_EVENTS)};
    const char *args[] = {name, STORE_EVENTS, field, value};
    int64_t n = 0;
    rc = count_and_free(store_script(s, &set_script, 2, keys, value ? 4 : 3, args, NULL, e), &n, e);
    return rc < 0 ? rc : n ? 0 : no_node(name, e);
}

/* ---- profiles -------------------------------------------------------------------------------- */

static int profile_key(char key[STORE_KEY], const char *node, const char *nethash, struct err *e)
{
    int rc = key_named(key, KEY_PROFILE, nethash, e); /* checks that it is a name */
    if (rc < 0 || (rc = key_named(key, KEY_PROFILE, node, e)) < 0) {
        return rc;
    }
    size_t n = strlen(key);
    snprintf(key + n, STORE_KEY - n, ":%s", nethash);
    return 0;
}

int store_profile_put(struct store *s, const char *node, const char *nethash, const json_t *profile,
                      struct err *e)
{
    char key[STORE_KEY];
    int rc = profile_key(key, node, nethash, e);
    if (rc < 0) {
        return rc;
    }
    char *text = store_dump(profile, "a profile", e);
    if (!text) {
        return store_failed(e);
    }
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", (int)STORE_PROFILE_S);
    const char *argv[] = {"SET", key, text, "EX", seconds};
    redisReply *r = store_change(s, 5, argv, e);
    free(text);
    return store_done(r, e);
}

json_t *store_profile_get(struct store *s, const char *node, const char *nethash, struct err *e)
{
    char key[STORE_KEY];
    err_clear(e);
    if (profile_key(key, node, nethash, e) < 0) {
        return NULL;
    }
    redisReply *r = store_commandf(s, e, "GET %s", key);
    json_t *j = r ? reply_json(r, e) : NULL;
    freeReplyObject(r);
    return j;
}

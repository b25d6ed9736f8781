/* Nodes, who uses them, and what is known of their speed.
 *
 * A node is a hash: its document, the time of its last heartbeat by Redis's clock, and what an
 * operator asked (drained, disabled). Its state is worked out when it is read, never stored: a node
 * that stops sending is lost without anybody having to notice. A claim is a key of its own, taken
 * by compare-and-set, so two schedulers cannot place two jobs on one node.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"

enum { GPU_SECONDS = 10 }; /* what a node that went silent told of its GPU is forgotten */

static int count_and_free(redisReply *r, int64_t *n, struct err *e)
{
    if (!r) {
        return store_failed(e);
    }
    int rc = reply_int(r, n, e);
    freeReplyObject(r);
    return rc;
}

#define LUA_NODE_EVENT                                                                               \
    "local function tell(name, what)\n"                                                              \
    "  redis.call('XADD', 'es:events', 'MAXLEN', '~', 20000, '*', 'job', '', 'type', 'node', 'j',\n" \
    "    '{\"name\":' .. cjson.encode(name) .. ',\"change\":\"' .. what .. '\"}')\n"                 \
    "end\n"

/* KEYS nodes, then node keys; ARGV name json of each. Told to browsers when a node is new, was lost
 * or has changed, not at each heartbeat. */
static struct script put_script = {
    .text = LUA_NODE_EVENT
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "for i = 2, #KEYS do\n"
    "  local name, json = ARGV[2 * i - 3], ARGV[2 * i - 2]\n"
    "  local old = redis.call('HMGET', KEYS[i], 'json', 'at')\n"
    "  redis.call('HSET', KEYS[i], 'json', json, 'at', string.format('%d', now))\n"
    "  redis.call('SADD', KEYS[1], name)\n"
    "  if old[1] ~= json then tell(name, 'put')\n"
    "  elseif now - tonumber(old[2] or '0') > 4000 then tell(name, 'back') end\n"
    "end\n"
    "return 1\n",
};

int store_nodes_put(struct store *s, const json_t *nodes, struct err *e)
{
    size_t n = json_array_size(nodes), made = 0;
    char(*node_keys)[STORE_KEY] = calloc(n + 1, sizeof *node_keys),
    **texts = calloc(n + 1, sizeof *texts);
    const char **keys = calloc(n + 1, sizeof *keys), **args = calloc(2 * n + 1, sizeof *args);
    int rc = node_keys && texts && keys && args
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot register nodes: memory ran out");
    for (; rc == 0 && made < n; made++) {
        const json_t *node = json_array_get(nodes, made);
        const char *name = json_string_value(json_object_get(node, "name"));
        if ((rc = store_name_key(node_keys[made], "es:node:", name, e)) < 0 ||
            !(texts[made] = store_dump(node, "a node", e))) {
            rc = rc < 0 ? rc : store_failed(e);
            break;
        }
        keys[made + 1] = node_keys[made];
        args[2 * made] = name;
        args[2 * made + 1] = texts[made];
    }
    if (rc == 0 && n > 0) {
        int64_t done = 0;
        keys[0] = "es:nodes";
        rc = count_and_free(
            store_script(s, &put_script, (int)n + 1, keys, 2 * (int)n, args, NULL, e), &done, e);
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

/* KEYS gpu; ARGV json seconds. Apart from the node's document, every change of which is told to
 * browsers. */
static struct script gpu_script = {
    .text =
        "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])\n"
        "return 1\n",
};

int store_gpu_put(struct store *s, const char *node, const json_t *gpu, struct err *e)
{
    char key[STORE_KEY], seconds[16];
    int rc = store_name_key(key, "es:gpu:", node, e);
    char *text = rc < 0 ? NULL : store_dump(gpu, "a GPU", e);
    if (!text) {
        return rc < 0 ? rc : store_failed(e);
    }
    const char *keys[] = {key};
    const char *args[] = {text, seconds};
    int64_t n = 0;
    snprintf(seconds, sizeof seconds, "%d", GPU_SECONDS);
    rc = count_and_free(store_script(s, &gpu_script, 1, keys, 2, args, NULL, e), &n, e);
    free(text);
    return rc;
}

/* ARGV names, or none for all: {clock, {name, hash, claim, gpu}, …}. */
static struct script read_script = {
    .text =
        "local t = redis.call('TIME')\n"
        "local names = ARGV\n"
        "if #names == 0 then names = redis.call('SMEMBERS', 'es:nodes') end\n"
        "local out = {string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))}\n"
        "for _, name in ipairs(names) do\n"
        "  out[#out + 1] = {name, redis.call('HGETALL', 'es:node:' .. name), redis.call('GET', 'es:claim:' .. name),\n"
        "    redis.call('GET', 'es:gpu:' .. name)}\n"
        "end\n"
        "return out\n",
};

static bool is_set(const redisReply *hash, const char *field)
{
    const char *text = reply_field(hash, field, NULL);
    return text && strcmp(text, "") && strcmp(text, "0") && strcmp(text, "false");
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
         leaving = json_is_true(json_object_get(node, "leaving"));
    const char *state = disabled                   ? "disabled"
                        : age > STORE_NODE_LOST_MS ? "lost"
                        : drained || leaving       ? "draining"
                        : job                      ? "busy"
                                                   : "ready";
    json_object_set_new(node, "state", json_string(state));
    json_object_set_new(node, "job", job ? json_string(job) : json_null());
    json_object_set_new(node, "drained", json_boolean(drained));
    json_object_set_new(node, "disabled", json_boolean(disabled));
    json_object_set_new(node, "heartbeat_age_seconds", json_real(age < 0 ? 0 : age / 1000));
    return node;
}

static json_t *read_nodes(struct store *s, int n, const char **names, struct err *e)
{
    redisReply *r = store_script(s, &read_script, 0, NULL, n, names, NULL, e);
    double clock = 0;
    int count = r ? reply_record(r, 1, e) : -1;
    json_t *out = count > 0 && reply_clock(r->element[0], &clock, e) == 0 ? json_array() : NULL;
    for (int i = 1; out && i < count; i++) {
        json_t *node = node_json(r->element[i], clock);
        if (node) {
            json_array_append_new(out, node);
        }
    }
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

static int no_node(const char *name, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no node '%.128s'", name);
}

json_t *store_node_get(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    if (store_name_key(key, "es:node:", name, e) < 0) {
        no_node(name ? name : "", e);
        return NULL;
    }
    json_t *all = read_nodes(s, 1, &name, e);
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
    const char *p = json_string_value(json_object_get(*x, "name")),
               *q = json_string_value(json_object_get(*y, "name"));
    return strcmp(p ? p : "", q ? q : "");
}

json_t *store_nodes(struct store *s, struct err *e)
{
    json_t *all = read_nodes(s, 0, NULL, e);
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

/* KEYS node nodes; ARGV name. */
static struct script remove_script = {
    .text = LUA_NODE_EVENT
    "local n = redis.call('DEL', KEYS[1])\n"
    "redis.call('SREM', KEYS[2], ARGV[1])\n"
    "if n == 1 then tell(ARGV[1], 'removed') end\n"
    "return n\n",
};

int store_node_remove(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    int rc = store_name_key(key, "es:node:", name, e);
    if (rc < 0) {
        return no_node(name ? name : "", e);
    }
    const char *keys[] = {key, "es:nodes"};
    int64_t n = 0;
    rc = count_and_free(store_script(s, &remove_script, 2, keys, 1, &name, NULL, e), &n, e);
    return rc < 0 ? rc : n ? 0 : no_node(name, e);
}

static struct script set_script = {
    .text = LUA_NODE_EVENT
    "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end\n"
    "if ARGV[3] then redis.call('HSET', KEYS[1], ARGV[2], ARGV[3]) else redis.call('HDEL', KEYS[1], ARGV[2]) end\n"
    "tell(ARGV[1], 'set')\n"
    "return 1\n",
};

int store_node_set(struct store *s, const char *name, const char *field, const char *value,
                   struct err *e)
{
    char key[STORE_KEY];
    int rc = store_name_key(key, "es:node:", name, e);
    if (rc < 0) {
        return no_node(name ? name : "", e);
    }
    if (!strcmp(field, "json") || !strcmp(field, "at")) {
        return err_set(e, ERR_INVALID, "the field '%s' of a node is not set by hand", field);
    }
    const char *keys[] = {key}, *args[] = {name, field, value};
    int64_t n = 0;
    rc = count_and_free(store_script(s, &set_script, 1, keys, value ? 3 : 2, args, NULL, e), &n, e);
    return rc < 0 ? rc : n ? 0 : no_node(name, e);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static struct script claim_script = {
    .text = LUA_NODE_EVENT
    "local old = redis.call('GET', KEYS[1])\n"
    "if old then return old == ARGV[2] and 1 or 0 end\n"
    "redis.call('SET', KEYS[1], ARGV[2])\n"
    "tell(ARGV[1], 'claimed')\n"
    "return 1\n",
};

static struct script release_script = {
    .text = LUA_NODE_EVENT
    "if redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end\n"
    "redis.call('DEL', KEYS[1])\n"
    "tell(ARGV[1], 'released')\n"
    "return 1\n",
};

static int claim(struct store *s, struct script *script, const char *name, const char *job,
                 struct err *e)
{
    char key[STORE_KEY];
    int rc = store_name_key(key, "es:claim:", name, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {key}, *args[] = {name, job};
    int64_t n = 0;
    rc = count_and_free(store_script(s, script, 1, keys, 2, args, NULL, e), &n, e);
    return rc < 0 ? rc : (int)n;
}

int store_node_claim(struct store *s, const char *name, const char *job, struct err *e)
{
    return claim(s, &claim_script, name, job, e);
}

int store_node_release(struct store *s, const char *name, const char *job, struct err *e)
{
    return claim(s, &release_script, name, job, e);
}

/* ---- profiles -------------------------------------------------------------------------------- */

static int profile_key(char key[STORE_KEY], const char *node, const char *nethash, struct err *e)
{
    char prefix[STORE_KEY];
    int rc = store_name_key(prefix, "es:profile:", node, e);
    if (rc < 0) {
        return rc;
    }
    size_t n = strlen(prefix);
    snprintf(prefix + n, sizeof prefix - n, ":");
    return store_name_key(key, prefix, nethash, e);
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
    redisReply *r = store_commandf(s, e, "SET %s %s EX %d", key, text, (int)STORE_PROFILE_S);
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
    if (r) {
        freeReplyObject(r);
    }
    return j;
}

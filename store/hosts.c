/* Hosts, and messages between the coordinator and their agents: boxes that hold sealed text
 * (common/sign.h), leases, and counts of what was refused.
 *
 * A host is a hash like a node: its document and its last heartbeat by Redis's clock; whether it is
 * lost is worked out when it is read. Nothing here trusts anybody: whoever can write to the store
 * can put anything into a box, and the signatures decide. A lease is a key that its owner renews;
 * where it is gone, the owner is gone or cannot reach the store.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"

enum { BOX_MESSAGES = 64, BOX_BYTES = 64 << 10 };
enum { REFUSALS = 32, REFUSAL_MS = 30000 }; /* an agent asks again every few seconds */

/* ---- hosts ----------------------------------------------------------------------------------- */

/* KEYS host hosts; ARGV name json instance. A host belongs to one agent: another instance is
 * refused while this one reports. */
static struct script put_script = {
    .text =
        "local t = redis.call('TIME')\n"
        "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
        "local old = redis.call('HMGET', KEYS[1], 'instance', 'at')\n"
        "if old[1] and old[1] ~= ARGV[3] and now - tonumber(old[2]) < tonumber(ARGV[4]) then return 0 end\n"
        "redis.call('HSET', KEYS[1], 'json', ARGV[2], 'instance', ARGV[3], 'at', string.format('%d', now))\n"
        "redis.call('SADD', KEYS[2], ARGV[1])\n"
        "return 1\n",
};

int store_host_put(struct store *s, const json_t *host, struct err *e)
{
    char key[STORE_KEY], lost[16];
    const char *name = json_string_value(json_object_get(host, "name")),
               *instance = json_string_value(json_object_get(host, "instance"));
    int rc = store_name_key(key, "es:host:", name, e);
    if (rc < 0) {
        return rc;
    }
    char *text = store_dump(host, "a host", e);
    if (!text || !instance) {
        free(text);
        return store_failed(e);
    }
    snprintf(lost, sizeof lost, "%d", (int)STORE_NODE_LOST_MS);
    const char *keys[] = {key, "es:hosts"}, *args[] = {name, text, instance, lost};
    redisReply *r = store_script(s, &put_script, 2, keys, 4, args, NULL, e);
    int64_t n = 0;
    free(text);
    rc = r ? reply_int(r, &n, e) : store_failed(e);
    if (r) {
        freeReplyObject(r);
    }
    return rc < 0 ? rc
           : n    ? 0
                  : err_set(e, ERR_CONFLICT, "another agent offers the host '%s' already", name);
}

static struct script read_script = {
    .text =
        "local t = redis.call('TIME')\n"
        "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
        "local names, out = ARGV, {}\n"
        "if #names == 0 then names = redis.call('SMEMBERS', 'es:hosts') end\n"
        "for _, name in ipairs(names) do\n"
        "  local h = redis.call('HMGET', 'es:host:' .. name, 'json', 'at')\n"
        "  if h[1] then\n"
        "    out[#out + 1] = h[1]\n"
        "    out[#out + 1] = string.format('%d', now - tonumber(h[2]))\n"
        "  end\n"
        "end\n"
        "return out\n",
};

static json_t *read_hosts(struct store *s, int n, const char **names, struct err *e)
{
    redisReply *r = store_script(s, &read_script, 0, NULL, n, names, NULL, e);
    int count = r ? reply_array(r, 0, e) : -1;
    json_t *out = count < 0 ? NULL : json_array();
    for (int i = 0; out && i + 1 < count; i += 2) {
        const char *age = "0";
        json_t *host = reply_json(r->element[i], NULL);
        if (json_is_object(host) && reply_text(r->element[i + 1], &age, NULL, NULL) > 0) {
            double ms = (double)strtoll(age, NULL, 10);
            json_object_set_new(host, "heartbeat_age_seconds", json_real(ms < 0 ? 0 : ms / 1000));
            json_object_set_new(host, "lost", json_boolean(ms > STORE_NODE_LOST_MS));
            json_array_append(out, host);
        }
        json_decref(host);
    }
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

json_t *store_hosts(struct store *s, struct err *e)
{
    return read_hosts(s, 0, NULL, e);
}

json_t *store_host_get(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    json_t *all = store_name_key(key, "es:host:", name, e) < 0 ? NULL : read_hosts(s, 1, &name, e);
    json_t *host = json_incref(json_array_get(all, 0));
    if (all && !host) {
        err_set(e, ERR_NOT_FOUND, "there is no host '%.128s'", name);
    }
    json_decref(all);
    return host;
}

static struct script remove_script = {
    .text =
        "if redis.call('HGET', KEYS[1], 'instance') ~= ARGV[2] then return 0 end\n"
        "redis.call('SREM', KEYS[2], ARGV[1])\n"
        "return redis.call('DEL', KEYS[1])\n",
};

int store_host_remove(struct store *s, const char *name, const char *instance, struct err *e)
{
    char key[STORE_KEY];
    int rc = store_name_key(key, "es:host:", name, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {key, "es:hosts"}, *args[] = {name, instance};
    return store_done(store_script(s, &remove_script, 2, keys, 2, args, NULL, e), e);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static struct script mail_script = {
    .text =
        "local n = redis.call('RPUSH', KEYS[1], ARGV[1])\n"
        "if n > tonumber(ARGV[3]) then redis.call('LTRIM', KEYS[1], -tonumber(ARGV[3]), -1) end\n"
        "redis.call('EXPIRE', KEYS[1], ARGV[2])\n"
        "return n\n",
};

int store_mail_put(struct store *s, const char *box, const char *text, int seconds, struct err *e)
{
    char key[STORE_KEY], life[16], most[16];
    int rc = store_name_key(key, "es:mail:", box, e);
    if (rc < 0) {
        return rc;
    }
    if (strlen(text) > BOX_BYTES) {
        return err_set(e, ERR_TOO_LARGE, "a message for '%s' has more than %d bytes", box,
                       (int)BOX_BYTES);
    }
    snprintf(life, sizeof life, "%d", seconds);
    snprintf(most, sizeof most, "%d", (int)BOX_MESSAGES);
    const char *keys[] = {key}, *args[] = {text, life, most};
    return store_done(store_script(s, &mail_script, 1, keys, 3, args, NULL, e), e);
}

char *store_mail_take(struct store *s, const char *box, int block_ms, struct err *e)
{
    char key[STORE_KEY], wait[32], *copy = NULL;
    const char *text = NULL;
    err_clear(e);
    if (store_name_key(key, "es:mail:", box, e) < 0) {
        return NULL;
    }
    snprintf(wait, sizeof wait, "%.3f", block_ms / 1000.0);
    const char *blocking[] = {"BLPOP", key, wait};
    redisReply *r = block_ms > 0 ? store_wait(s, block_ms, 3, blocking, e)
                                 : store_commandf(s, e, "LPOP %s", key),
               *message = r;
    if (r && block_ms > 0) { /* [key, message], or nil */
        message = reply_array(r, 2, e) > 0 ? r->element[1] : NULL;
    }
    if (message && reply_text(message, &text, NULL, e) > 0 && !(copy = strdup(text))) {
        err_set(e, ERR_MEMORY, "cannot read a message: memory ran out");
    }
    if (r) {
        freeReplyObject(r);
    }
    return copy;
}

/* ---- leases and counts ----------------------------------------------------------------------- */

int store_lease_set(struct store *s, const char *name, int seconds, struct err *e)
{
    char key[STORE_KEY];
    int rc = store_name_key(key, "es:lease:", name, e);
    if (rc < 0) {
        return rc;
    }
    return store_done(seconds > 0 ? store_commandf(s, e, "SET %s 1 EX %d", key, seconds)
                                  : store_commandf(s, e, "DEL %s", key),
                      e);
}

int store_lease_there(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    int64_t n = 0;
    int rc = store_name_key(key, "es:lease:", name, e);
    if (rc < 0) {
        return rc;
    }
    redisReply *r = store_commandf(s, e, "EXISTS %s", key);
    rc = r ? reply_int(r, &n, e) : store_failed(e);
    if (r) {
        freeReplyObject(r);
    }
    return rc < 0 ? rc : n > 0;
}

int store_refused_add(struct store *s, const char *what, struct err *e)
{
    return store_done(store_commandf(s, e, "HINCRBY es:refused %s 1", what), e);
}

json_t *store_refused(struct store *s, struct err *e)
{
    redisReply *r = store_commandf(s, e, "HGETALL es:refused");
    int n = r ? reply_array(r, 0, e) : -1;
    json_t *out = n < 0 ? NULL : json_object();
    for (int i = 0; out && i + 1 < n; i += 2) {
        const char *name = "", *count = "0";
        if (reply_text(r->element[i], &name, NULL, NULL) > 0 &&
            reply_text(r->element[i + 1], &count, NULL, NULL) > 0) {
            json_object_set_new(out, name, json_integer(strtoll(count, NULL, 10)));
        }
    }
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

/* ARGV host json most seconds; the value is "TIME JSON". */
static struct script refusal_script = {
    .text =
        "local t = redis.call('TIME')\n"
        "redis.call('HSET', KEYS[1], ARGV[1], string.format('%d ', t[1] * 1000 + math.floor(t[2] / 1000)) .. ARGV[2])\n"
        "while redis.call('HLEN', KEYS[1]) > tonumber(ARGV[3]) do\n"
        "  local all, oldest, least = redis.call('HGETALL', KEYS[1]), nil, nil\n"
        "  for i = 1, #all, 2 do\n"
        "    local at = tonumber(string.match(all[i + 1], '^%d+')) or 0\n"
        "    if not least or at < least then oldest, least = all[i], at end\n"
        "  end\n"
        "  redis.call('HDEL', KEYS[1], oldest)\n"
        "end\n"
        "return redis.call('PEXPIRE', KEYS[1], ARGV[4])\n",
};

int store_refusal_put(struct store *s, const json_t *refusal, struct err *e)
{
    char most[16], life[16], *text = store_dump(refusal, "a refusal", e);
    if (!text) {
        return store_failed(e);
    }
    snprintf(most, sizeof most, "%d", (int)REFUSALS);
    snprintf(life, sizeof life, "%d", (int)REFUSAL_MS);
    const char *keys[] = {"es:refusals"},
               *args[] = {json_string_value(json_object_get(refusal, "host")), text, most, life};
    int rc = store_done(store_script(s, &refusal_script, 1, keys, 4, args, NULL, e), e);
    free(text);
    return rc;
}

int store_refusal_remove(struct store *s, const char *host, struct err *e)
{
    return store_done(store_commandf(s, e, "HDEL es:refusals %s", host), e);
}

static struct script refusals_script = {
    .text =
        "local t = redis.call('TIME')\n"
        "local now, names, out = t[1] * 1000 + math.floor(t[2] / 1000), redis.call('HKEYS', KEYS[1]), {}\n"
        "table.sort(names)\n"
        "for _, name in ipairs(names) do\n"
        "  local at, json = string.match(redis.call('HGET', KEYS[1], name), '^(%d+) (.*)$')\n"
        "  if at and now - at <= tonumber(ARGV[1]) then\n"
        "    out[#out + 1] = json\n"
        "    out[#out + 1] = string.format('%d', now - at)\n"
        "  end\n"
        "end\n"
        "return out\n",
};

json_t *store_refusals(struct store *s, struct err *e)
{
    char life[16];
    snprintf(life, sizeof life, "%d", (int)REFUSAL_MS);
    const char *keys[] = {"es:refusals"}, *args[] = {life};
    redisReply *r = store_script(s, &refusals_script, 1, keys, 1, args, NULL, e);
    int count = r ? reply_array(r, 0, e) : -1;
    json_t *out = count < 0 ? NULL : json_array();
    for (int i = 0; out && i + 1 < count; i += 2) {
        const char *age = "0";
        json_t *one = reply_json(r->element[i], NULL);
        if (json_is_object(one) && reply_text(r->element[i + 1], &age, NULL, NULL) > 0) {
            json_object_set_new(one, "age_seconds",
                                json_real((double)strtoll(age, NULL, 10) / 1000));
            json_array_append(out, one);
        }
        json_decref(one);
    }
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

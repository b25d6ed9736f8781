/* Hosts, and messages between the coordinator and their agents: boxes that hold sealed text
 * (common/sign.h), leases, and counts of what was refused.
 *
 * A host is a hash like a node: its document and its last heartbeat by Redis's clock; whether it is
 * lost is computed when it is read. Anyone who can write to the store can put anything into a box,
 * so only signatures count. A lease is a key that its owner renews; once it has expired, the owner
 * is gone or cannot reach the store.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

enum { BOX_MESSAGES = 64, BOX_BYTES = 64 << 10 };
enum { REFUSALS = 32, REFUSAL_MS = 30000 }; /* of a host that asks again every few seconds */

/* ---- hosts ----------------------------------------------------------------------------------- */

struct script host_put_script = {.text = LUA_CLOCK LUA_HOST_PUT, .by_name = true};

int store_host_put(struct store *s, const struct host_beat *host, struct err *e)
{
    char key[STORE_KEY], lost[16];
    int rc = key_named(key, KEY_HOST, host->name, e);
    if (rc < 0) {
        return rc;
    }
    json_t *j = host_beat_json(host);
    char *text = store_dump(j, "a host", e);
    json_decref(j);
    if (!text) {
        return store_failed(e);
    }
    snprintf(lost, sizeof lost, "%d", (int)STORE_NODE_LOST_MS);
    const char *keys[] = {key, key_text(KEY_HOSTS)},
               *args[] = {host->name, text, host->instance, lost};
    redisReply *r = store_script(s, &host_put_script, 2, keys, 4, args, NULL, e);
    int64_t n = 0;
    free(text);
    rc = r ? reply_int(r, &n, e) : store_failed(e);
    freeReplyObject(r);
    return rc < 0 ? rc
           : n    ? 0
               : err_set(e, ERR_CONFLICT, "another agent offers the host '%s' already", host->name);
}

static struct script read_script = {.text = LUA_CLOCK LUA_HOST_READ};

/* Reads the host `name`; NULL: all hosts. */
static json_t *read_hosts(struct store *s, const char *name, struct err *e)
{
    char prefix[STORE_KEY];
    key_prefix(prefix, KEY_HOST);
    const char *keys[] = {key_text(KEY_HOSTS)}, *args[] = {prefix, name};
    redisReply *r = store_script(s, &read_script, 1, keys, name ? 2 : 1, args, NULL, e);
    int count = r ? reply_array(r, 0, e) : -1;
    json_t *out = count < 0 ? NULL : json_array();
    for (int i = 0; out && i + 1 < count; i += 2) {
        const char *age = "0";
        json_t *host = reply_json(r->element[i], NULL);
        if (json_is_object(host) && reply_text(r->element[i + 1], &age, NULL, NULL) > 0) {
            double ms = (double)strtoll(age, NULL, 10);
            host_beat_aged(host, ms < 0 ? 0 : ms / 1000, ms > STORE_NODE_LOST_MS);
            json_array_append(out, host);
        }
        json_decref(host);
    }
    freeReplyObject(r);
    return out;
}

json_t *store_hosts(struct store *s, struct err *e)
{
    return read_hosts(s, NULL, e);
}

json_t *store_host_get(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    json_t *all = key_named(key, KEY_HOST, name, e) < 0 ? NULL : read_hosts(s, name, e);
    json_t *host = json_incref(json_array_get(all, 0));
    if (all && !host) {
        err_set(e, ERR_NOT_FOUND, "there is no host '%.128s'", name);
    }
    json_decref(all);
    return host;
}

struct script host_remove_script = {.text = LUA_HOST_REMOVE, .by_name = true};

int store_host_remove(struct store *s, const char *name, const char *instance, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_named(key, KEY_HOST, name, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {key, key_text(KEY_HOSTS)}, *args[] = {name, instance};
    return store_done(store_script(s, &host_remove_script, 2, keys, 2, args, NULL, e), e);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

struct script mail_put_script = {.text = LUA_MAIL_PUT, .by_name = true};

int store_mail_put(struct store *s, const char *box, const char *text, int seconds, struct err *e)
{
    char key[STORE_KEY], life[16], most[16];
    int rc = key_named(key, KEY_MAIL, box, e);
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
    return store_done(store_script(s, &mail_put_script, 1, keys, 3, args, NULL, e), e);
}

char *store_mail_take(struct store *s, const char *box, int block_ms, struct err *e)
{
    char key[STORE_KEY], wait[32], *copy = NULL;
    const char *text = NULL;
    err_clear(e);
    if (key_named(key, KEY_MAIL, box, e) < 0) {
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
    freeReplyObject(r);
    return copy;
}

/* ---- leases and counts ----------------------------------------------------------------------- */

int store_lease_set(struct store *s, const char *name, int seconds, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_named(key, KEY_LEASE, name, e);
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
    int rc = key_named(key, KEY_LEASE, name, e);
    if (rc < 0) {
        return rc;
    }
    redisReply *r = store_commandf(s, e, "EXISTS %s", key);
    rc = r ? reply_int(r, &n, e) : store_failed(e);
    freeReplyObject(r);
    return rc < 0 ? rc : n > 0 ? LEASE_HELD : LEASE_GONE;
}

int store_refused_add(struct store *s, const char *what, struct err *e)
{
    return store_done(store_commandf(s, e, "HINCRBY %s %s 1", key_text(KEY_REFUSED), what), e);
}

json_t *store_refused(struct store *s, struct err *e)
{
    redisReply *r = store_commandf(s, e, "HGETALL %s", key_text(KEY_REFUSED));
    int n = r ? reply_array(r, 0, e) : -1;
    json_t *out = n < 0 ? NULL : json_object();
    for (int i = 0; out && i + 1 < n; i += 2) {
        const char *name = "", *count = "0";
        if (reply_text(r->element[i], &name, NULL, NULL) > 0 &&
            reply_text(r->element[i + 1], &count, NULL, NULL) > 0) {
            json_object_set_new(out, name, json_integer(strtoll(count, NULL, 10)));
        }
    }
    freeReplyObject(r);
    return out;
}

static struct script refusal_script = {.text = LUA_CLOCK LUA_REFUSAL_PUT};

int store_refusal_put(struct store *s, const char *host, const json_t *refusal, struct err *e)
{
    char most[16], life[16], *text = store_dump(refusal, "a refusal", e);
    if (!text) {
        return store_failed(e);
    }
    snprintf(most, sizeof most, "%d", (int)REFUSALS);
    snprintf(life, sizeof life, "%d", (int)REFUSAL_MS);
    const char *keys[] = {key_text(KEY_REFUSALS)}, *args[] = {host, text, most, life};
    int rc = store_done(store_script(s, &refusal_script, 1, keys, 4, args, NULL, e), e);
    free(text);
    return rc;
}

int store_refusal_remove(struct store *s, const char *host, struct err *e)
{
    return store_done(store_commandf(s, e, "HDEL %s %s", key_text(KEY_REFUSALS), host), e);
}

static struct script refusals_script = {.text = LUA_CLOCK LUA_REFUSAL_READ};

json_t *store_refusals(struct store *s, struct err *e)
{
    char life[16];
    snprintf(life, sizeof life, "%d", (int)REFUSAL_MS);
    const char *keys[] = {key_text(KEY_REFUSALS)}, *args[] = {life};
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
    freeReplyObject(r);
    return out;
}

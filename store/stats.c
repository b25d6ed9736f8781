/* Counters of the service for /metrics, and small secrets with a lifetime (links and sessions of
 * the dashboard).
 *
 * Secrets are taken with GETDEL: of two browsers with the same code, one gets the session. Callers
 * store a token's hash, never the token; this file does not read values.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct script count_script = {.text = LUA_COUNT};

static int add_counts(struct store *s, json_t *out, struct err *e)
{
    const char *names[JOB_STATE_COUNT],
        *keys[2 + JOB_STATE_COUNT] = {key_text(KEY_NODES), key_text(KEY_EVENTS)};
    char index[JOB_STATE_COUNT][STORE_KEY];
    for (int i = 0; i < JOB_STATE_COUNT; i++) {
        names[i] = jobstate_name((enum job_state)i);
        key_named(index[i], KEY_STATE, names[i], NULL);
        keys[2 + i] = index[i];
    }
    redisReply *r = store_script(s, &count_script, 2 + JOB_STATE_COUNT, keys, 0, NULL, NULL, e);
    int rc = r ? reply_record(r, JOB_STATE_COUNT + 2, e) : -1;
    json_t *jobs = json_object();
    for (int i = 0; rc >= 0 && i < JOB_STATE_COUNT + 2; i++) {
        int64_t n = 0;
        rc = reply_int(r->element[i], &n, e);
        json_t *at = i < JOB_STATE_COUNT ? jobs : out;
        json_object_set_new(at,
                            i < JOB_STATE_COUNT    ? names[i]
                            : i == JOB_STATE_COUNT ? "nodes"
                                                   : "events",
                            json_integer(n));
    }
    json_object_set_new(out, "jobs", jobs);
    freeReplyObject(r);
    return rc < 0 ? -1 : 0;
}

static int add_info(struct store *s, json_t *out, struct err *e)
{
    static const struct {
        const char *field, *name;
    } wanted[] = {{"used_memory", "memory_bytes"},
                  {"connected_clients", "connected_clients"},
                  {"uptime_in_seconds", "uptime_seconds"},
                  {"total_commands_processed", "commands_total"},
                  {"aof_current_size", "append_only_file_bytes"},
                  {"evicted_keys", "evicted_keys_total"}};
    redisReply *r = store_commandf(s, e, "INFO");
    const char *text = NULL;
    int got = r ? reply_text(r, &text, NULL, e) : -1;
    if (got <= 0) {
        freeReplyObject(r);
        return got < 0 ? -1
                       : err_set(e, ERR_DATA,
                                 "the store answered with nothing, not with what INFO says");
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char needle[64];
        snprintf(needle, sizeof needle, "\n%s:", wanted[i].field);
        const char *at = strstr(text, needle);
        json_object_set_new(out, wanted[i].name,
                            json_integer(at ? strtoll(at + strlen(needle), NULL, 10) : 0));
    }
    const char *version = strstr(text, "\nredis_version:");
    size_t len = version ? strcspn(version + 15, "\r\n") : 0;
    json_object_set_new(out, "version", json_stringn(version ? version + 15 : "", len));
    freeReplyObject(r);
    return 0;
}

json_t *store_stats(struct store *s, struct err *e)
{
    json_t *out = json_object();
    if (add_counts(s, out, e) < 0 || add_info(s, out, e) < 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ---- secrets --------------------------------------------------------------------------------- */

/* Any text may be a key: it is hashed. */
static void secret_key(char key[STORE_KEY], const char *name)
{
    char hash[65];
    store_hex_sha256(name, strlen(name), hash);
    key_named(key, KEY_SECRET, hash, NULL);
}

int store_secret_put(struct store *s, const char *key, const char *value, int seconds,
                     struct err *e)
{
    char at[STORE_KEY];
    secret_key(at, key);
    redisReply *r = seconds > 0 ? store_commandf(s, e, "SET %s %s EX %d", at, value, seconds)
                                : store_commandf(s, e, "SET %s %s", at, value);
    return store_done(r, e);
}

static char *secret(struct store *s, const char *command, const char *key, struct err *e)
{
    char at[STORE_KEY], *copy = NULL;
    const char *text = NULL;
    err_clear(e);
    secret_key(at, key);
    redisReply *r = store_commandf(s, e, "%s %s", command, at);
    if (r && reply_text(r, &text, NULL, e) > 0 && !(copy = strdup(text))) {
        err_set(e, ERR_MEMORY, "cannot read a secret: memory ran out");
    }
    freeReplyObject(r);
    return copy;
}

char *store_secret_get(struct store *s, const char *key, struct err *e)
{
    return secret(s, "GET", key, e);
}

char *store_secret_take(struct store *s, const char *key, struct err *e)
{
    return secret(s, "GETDEL", key, e);
}

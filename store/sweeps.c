/* Sweeps in the store; see sweeps.h. */
#include "store/sweeps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json/jsonx.h"
#include "store/internal.h"
#include "store/lua.h"

static struct script create_script = {.text = LUA_IDEMPOTENT LUA_SWEEP_CREATE};
static struct script change_script = {.text = LUA_SWEEP_CHANGE};
static struct script remove_script = {.text = LUA_SWEEP_REMOVE};

static int none_of(const char *id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no sweep '%.60s'", id);
}

static int key_of(const char *id, char key[STORE_KEY], struct err *e)
{
    return key_named(key, KEY_SWEEP, id, NULL) < 0 ? none_of(id, e) : 0;
}

/* The state in a script's answer; frees the reply. */
static int state_of(redisReply *r, const char *id, struct err *e)
{
    const char *text = NULL;
    int got = r ? reply_text(r, &text, NULL, e) : store_failed(e), state = -1;
    if (got > 0 && (state = sweep_state_find(text)) < 0) {
        got = err_set(e, ERR_DATA, "sweep '%s' has the unknown state '%.40s'", id, text);
    }
    freeReplyObject(r);
    return got < 0 ? got : got == 0 ? none_of(id, e) : state;
}

/* ---- creating -------------------------------------------------------------------------------- */

int store_sweep_create(struct store *s, const json_t *document, const char *idempotency_key,
                       const char *owner, char id[STORE_ID], struct err *e)
{
    char key[STORE_KEY], idem[STORE_KEY] = "", fresh[STORE_ID], digest[65], when[32], score[32],
                         life[16];
    int64_t now = clock_wall_ms();
    int rc = store_random_id(fresh, e);
    if (rc < 0 || (rc = store_digest(document, digest, e)) < 0 ||
        (rc = key_of(fresh, key, e)) < 0) {
        return rc;
    }
    if (idempotency_key && idempotency_key[0]) {
        store_idempotency_key(idem, idempotency_key);
    }
    char *text = store_dump(document, "a sweep", e);
    if (!text) {
        return store_failed(e);
    }
    snprintf(life, sizeof life, "%d", STORE_IDEMPOTENCY_S);
    snprintf(score, sizeof score, "%lld", (long long)now);
    const char *keys[] = {key, key_text(KEY_SWEEPS), key_text(KEY_SWEEPS_OPEN), idem};
    const char *args[] = {fresh,
                          text,
                          owner ? owner : "",
                          sweep_state_name(SWEEP_RUNNING),
                          clock_format(when, now),
                          score,
                          digest,
                          life};
    redisReply *r = store_script(s, &create_script, idem[0] ? 4 : 3, keys, 8, args, NULL, e);
    rc = r ? store_created(r, "sweep", id, e) : store_failed(e);
    freeReplyObject(r);
    free(text);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char *const texts[] = {"owner", "state", "created", "finished"};
enum { TEXTS = sizeof texts / sizeof *texts, FIELDS = TEXTS + 2 };

/* The sweep in HMGET's answer; NULL without error: it does not exist. */
static json_t *sweep_of(const redisReply *r, const char *id, struct err *e)
{
    const char *text;
    if (reply_array(r, FIELDS, e) < FIELDS || reply_text(r->element[0], &text, NULL, e) <= 0) {
        return NULL;
    }
    json_t *document = reply_json(r->element[0], e), *jobs = reply_json(r->element[1], e);
    if (!document || !jobs) {
        json_decref(document);
        json_decref(jobs);
        return NULL;
    }
    json_t *out = json_pack("{s:s, s:o, s:o}", "id", id, "document", document, "jobs", jobs);
    for (int i = 0; i < TEXTS; i++) {
        bool there = reply_text(r->element[2 + i], &text, NULL, NULL) > 0 && text[0];
        json_object_set_new(out, texts[i], there ? json_string(text) : json_null());
    }
    return out;
}

json_t *store_sweep_get(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    if (key_of(id, key, e) < 0) {
        return NULL;
    }
    err_clear(e);
    redisReply *r = store_commandf(s, e, "HMGET %s document jobs %s %s %s %s", key, texts[0],
                                   texts[1], texts[2], texts[3]);
    json_t *out = r ? sweep_of(r, id, e) : NULL;
    freeReplyObject(r);
    if (!out && !e->code) {
        none_of(id, e);
    }
    return out;
}

/* The texts of a list as an array; frees the reply. */
static json_t *ids_of(redisReply *r, struct err *e)
{
    const char *id;
    int n = r ? reply_array(r, 0, e) : -1;
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        if (reply_text(r->element[i], &id, NULL, e) > 0) {
            json_array_append_new(out, json_string(id));
        }
    }
    freeReplyObject(r);
    return out;
}

json_t *store_sweeps_open(struct store *s, struct err *e)
{
    return ids_of(store_commandf(s, e, "SMEMBERS %s", key_text(KEY_SWEEPS_OPEN)), e);
}

json_t *store_sweeps(struct store *s, int limit, struct err *e)
{
    json_t *ids = ids_of(store_commandf(s, e, "ZREVRANGE %s 0 %d", key_text(KEY_SWEEPS), limit - 1),
                         e),
           *out = ids ? json_array() : NULL, *id;
    size_t i;
    json_array_foreach(ids, i, id) {
        json_t *one = out ? store_sweep_get(s, json_string_value(id), e) : NULL;
        if (one) {
            json_array_append_new(out, one);
        } else if (out && e->code != ERR_NOT_FOUND) { /* a sweep that was removed meanwhile is left
                                                         out */
            json_decref(out);
            out = NULL;
        }
    }
    json_decref(ids);
    return out;
}

/* ---- changing -------------------------------------------------------------------------------- */

int store_sweep_change(struct store *s, const char *id, const json_t *jobs, enum sweep_state from,
                       enum sweep_state to, struct err *e)
{
    char key[STORE_KEY], when[32], *text = jobs ? store_dump(jobs, "a sweep's jobs", e) : NULL;
    int rc = jobs && !text ? store_failed(e) : key_of(id, key, e);
    if (rc >= 0) {
        const char *keys[] = {key, key_text(KEY_SWEEPS_OPEN)};
        const char *args[] = {id,
                              sweep_state_name(from),
                              sweep_state_name(to),
                              sweep_state_ended(to) ? "1" : "0",
                              text ? text : "",
                              clock_format(when, clock_wall_ms())};
        rc = state_of(store_script(s, &change_script, 2, keys, 6, args, NULL, e), id, e);
    }
    free(text);
    return rc;
}

int store_sweep_remove(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_of(id, key, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {key, key_text(KEY_SWEEPS), key_text(KEY_SWEEPS_OPEN)}, *args[] = {id};
    rc = state_of(store_script(s, &remove_script, 3, keys, 1, args, NULL, e), id, e);
    if (rc >= 0 && !sweep_state_ended((enum sweep_state)rc)) {
        err_set(e, ERR_CONFLICT, "sweep '%s' is %s, and only one that has ended can be deleted", id,
                sweep_state_name((enum sweep_state)rc));
        return err_hint(e, "cancel it first");
    }
    return rc < 0 ? rc : 0;
}

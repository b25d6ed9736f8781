/* One coordinator at a time: the lease in the store, and the fence that keeps out whoever lost it
 * (docs/decisions/0016).
 *
 *   coordinator A   takes: token 7 ── renews … ── stops for a minute ───── writes with 7: refused
 *   coordinator B   waits ─────────── waits … ──── takes: token 8 ── writes with 8
 *
 * A lease alone is not enough, since its holder may be stopped between reading its clock and
 * writing. So every script that a coordinator runs begins with LUA_FENCE, which compares the token
 * in the same step as the change.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

/* ---- the fence ------------------------------------------------------------------------------- */

void store_fence(struct store *s, const struct store_fence *fence)
{
    s->fence = fence;
}

static struct script change_script = {.text = LUA_CHANGE};

redisReply *store_change(struct store *s, int argc, const char **argv, struct err *e)
{
    return s->fence ? store_script(s, &change_script, 0, NULL, argc, argv, NULL, e)
                    : store_command(s, argc, argv, NULL, e);
}

/* ---- the lease ------------------------------------------------------------------------------- */

static struct script take_script = {.text = LUA_CLOCK LUA_LEADER_TAKE};

void store_leader_release(struct store_leader *l)
{
    json_decref(l->who);
    *l = (struct store_leader){0};
}

/* {0, token, instance, who, age} */
static int read_leader(const redisReply *r, struct store_leader *out, struct err *e)
{
    const char *instance = "", *who = "";
    size_t n = 0;
    int64_t age = 0;
    if (r->elements < 5 || reply_text(r->element[2], &instance, NULL, e) < 0 ||
        reply_text(r->element[3], &who, &n, e) < 0 || reply_int(r->element[4], &age, e) < 0) {
        return err_set(e, ERR_DATA,
                       "the store's answer about the coordinator's lease is malformed");
    }
    snprintf(out->instance, sizeof out->instance, "%s", instance);
    out->who = n ? jsonx_parse(who, n, NULL) : NULL;
    out->age = age < 0 ? 0 : (double)age / 1000;
    return 0;
}

int store_leader_take(struct store *s, const struct store_candidate *c, struct store_fence *fence,
                      struct store_leader *leader, struct err *e)
{
    char token[24], length[24], *who = store_dump(c->who, "who the coordinator is", e);
    int64_t taken = 0, number = 0;
    if (!who) {
        return store_failed(e);
    }
    snprintf(token, sizeof token, "%lld", (long long)atomic_load(&fence->token));
    snprintf(length, sizeof length, "%lld",
             c->patient ? (long long)INT32_MAX : (long long)STORE_LEADER_MS);
    const char *keys[] = {key_text(KEY_LEADER)}, *args[] = {c->instance,
                                                            who,
                                                            token,
                                                            length,
                                                            c->dead ? c->dead : "",
                                                            c->store ? c->store : ""};
    redisReply *r = store_script(s, &take_script, 1, keys, 6, args, NULL, e);
    free(who);
    int rc = r ? reply_record(r, 2, e) : store_failed(e);
    if (rc >= 0 && ((rc = reply_int(r->element[0], &taken, e)) < 0 ||
                    (rc = reply_int(r->element[1], &number, e)) < 0)) {
        err_prefix(e, "cannot take the coordinator's lease");
    }
    if (rc >= 0 && taken) {
        atomic_store(&fence->token, number);
    } else if (rc >= 0 && leader) {
        rc = read_leader(r, leader, e);
    }
    freeReplyObject(r);
    return rc < 0 ? rc : taken ? LEADER_SELF : LEADER_OTHER;
}

int store_leader_store(struct store *s, char out[STORE_INSTANCE], struct err *e)
{
    const char *text = "";
    redisReply *r = store_commandf(s, e, "HGET %s store", key_text(KEY_LEADER));
    int rc = r ? reply_text(r, &text, NULL, e) : store_failed(e);
    if (rc >= 0) {
        snprintf(out, STORE_INSTANCE, "%s", rc == REPLY_TEXT ? text : "");
    }
    freeReplyObject(r);
    return rc < 0 ? rc : 0;
}

static struct script release_script = {.text = LUA_LEADER_RELEASE};

int store_leader_give(struct store *s, const char *instance, struct err *e)
{
    const char *keys[] = {key_text(KEY_LEADER)}, *args[] = {instance};
    return store_done(store_script(s, &release_script, 1, keys, 1, args, NULL, e), e);
}

/* Claims: which job has a node, since when, and what was used in all.
 *
 *   claim    es:claim:NODE = job        es:claims[NODE] = now
 *   release  both go, and now - since is booked: es:accounting:DAY[job] += ms, for each day
 *
 * A claim is a key of its own, taken by compare-and-set, so two schedulers cannot place two jobs on
 * one node. What was used is booked by the script that ends the claim, so it counts exactly once,
 * whoever dies when; and it stays when the job is deleted. Days are those of UTC.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json/jsonx.h"
#include "store/internal.h"
#include "store/lua.h"

enum { PARTS = 4 };

static int64_t now_ms(const struct store *s)
{
    return s->wall_ms ? s->wall_ms() : clock_wall_ms();
}

void store_clock(struct store *s, int64_t (*wall_ms)(void))
{
    s->wall_ms = wall_ms;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* The script's answer. 1: it was done; 0: another job has the node. */
static int answered(redisReply *r, struct err *e)
{
    int64_t n = 0;
    int rc = r ? reply_int(r, &n, e) : store_failed(e);
    freeReplyObject(r);
    if (rc >= 0 && (n < 0 || n > 1)) {
        return err_set(e, ERR_DATA, "the store answered a claim with %lld", (long long)n);
    }
    return rc < 0 ? rc : (int)n;
}

static struct script claim_script = {.text = LUA_NODE_EVENT LUA_NODE_CLAIM};

int store_node_claim(struct store *s, const char *name, const char *job, struct err *e)
{
    char key[STORE_KEY], now[24];
    int rc = key_named(key, KEY_CLAIM, name, e);
    if (rc < 0) {
        return rc;
    }
    snprintf(now, sizeof now, "%lld", (long long)now_ms(s));
    const char *keys[] = {key, key_text(KEY_EVENTS), key_text(KEY_CLAIMS)},
               *args[] = {name, STORE_EVENTS, job, now};
    return answered(store_script(s, &claim_script, 3, keys, 4, args, NULL, e), e);
}

static struct script release_script = {.text = LUA_NODE_EVENT LUA_DAYS LUA_NODE_RELEASE};

int store_node_release(struct store *s, const char *name, const char *job, struct err *e)
{
    char key[STORE_KEY], hash[STORE_KEY], days[STORE_KEY], now[24];
    int rc = key_named(key, KEY_CLAIM, name, e);
    if (rc < 0 || (rc = key_of_job(hash, KEY_JOB, job, e)) < 0) {
        return rc;
    }
    snprintf(now, sizeof now, "%lld", (long long)now_ms(s));
    key_prefix(days, KEY_ACCOUNTING_DAY);
    const char *keys[] = {key, key_text(KEY_EVENTS), key_text(KEY_CLAIMS), hash,
                          key_text(KEY_ACCOUNTING)},
               *args[] = {name, STORE_EVENTS, job, now, days};
    return answered(store_script(s, &release_script, 5, keys, 5, args, NULL, e), e);
}

/* ---- what was used --------------------------------------------------------------------------- */

static struct script accounting_script = {.text = LUA_DAYS LUA_ACCOUNTING};

/* What four texts of the script's answer say. NULL without error: we did not write them. */
static json_t *use_of(redisReply *const *parts, struct err *e)
{
    const char *text[PARTS];
    struct err ignored = {0};
    size_t n = 0;
    for (int i = 0; i < PARTS; i++) {
        if (reply_text(parts[i], &text[i], i == PARTS - 1 ? &n : NULL, e) <= 0) {
            return NULL;
        }
    }
    json_t *about = jsonx_parse(text[3], n, &ignored);
    json_t *out =
        json_pack("{s:I, s:o, s:I, s:o, s:o}", "day", (json_int_t)strtoll(text[0], NULL, 10), "job",
                  jsonx_text(text[1]), "ms", (json_int_t)strtoll(text[2], NULL, 10), "name",
                  jsonx_text(jsonx_string_at(about, "name")), "owner",
                  jsonx_text(jsonx_string_at(about, "owner")));
    json_decref(about);
    return out;
}

json_t *store_accounting(struct store *s, int64_t first, int64_t last, struct err *e)
{
    char days[STORE_KEY], claim[STORE_KEY], job[STORE_KEY], numbers[3][24];
    const int64_t given[] = {first, last, now_ms(s)};
    key_prefix(days, KEY_ACCOUNTING_DAY);
    key_prefix(claim, KEY_CLAIM);
    key_prefix(job, KEY_JOB);
    for (int i = 0; i < 3; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)given[i]);
    }
    const char *keys[] = {key_text(KEY_CLAIMS), key_text(KEY_ACCOUNTING)},
               *args[] = {numbers[0], numbers[1], numbers[2], days, claim, job};
    redisReply *r = store_script(s, &accounting_script, 2, keys, 6, args, NULL, e);
    int n = r ? reply_array(r, 0, e) : store_failed(e);
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i + PARTS <= n; i += PARTS) {
        json_t *use = use_of(r->element + i, e);
        if (use) {
            json_array_append_new(out, use);
        }
    }
    freeReplyObject(r);
    return out;
}

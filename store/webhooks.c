/* Webhooks in the store; see webhooks.h. A coordinator's changes go through its fence; requests
 * over HTTP put and remove webhooks. */
#include "store/webhooks.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/internal.h"
#include "store/lua.h"

static struct script put_script = {.text = LUA_WEBHOOK_PUT};
static struct script remove_script = {.text = LUA_WEBHOOK_REMOVE};
static struct script queue_script = {.text = LUA_WEBHOOK_QUEUE};
static struct script tried_script = {.text = LUA_WEBHOOK_TRIED};

enum { NUMBER = 16 };

static int none_of(const char *id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no webhook '%.60s'", id);
}

/* The number in a script's answer; frees the reply. */
static int number_of(redisReply *r, struct err *e)
{
    int64_t n = 0;
    int rc = r ? reply_int(r, &n, e) : store_failed(e);
    freeReplyObject(r);
    return rc < 0 ? rc : (int)n;
}

/* The documents of a list or of a hash's values; frees the reply. */
static json_t *documents_of(redisReply *r, struct err *e)
{
    int n = r ? reply_array(r, 0, e) : -1;
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        json_t *one = reply_json(r->element[i], e);
        if (one) {
            json_array_append_new(out, one);
        }
    }
    freeReplyObject(r);
    return out;
}

/* ---- webhooks -------------------------------------------------------------------------------- */

int store_webhook_put(struct store *s, const char *id, const json_t *webhook, struct err *e)
{
    char most[NUMBER], *text = store_dump(webhook, "a webhook", e);
    if (!text) {
        return store_failed(e);
    }
    snprintf(most, sizeof most, "%d", (int)STORE_WEBHOOKS);
    const char *keys[] = {key_text(KEY_WEBHOOKS)}, *args[] = {id, text, most};
    int n = number_of(store_script(s, &put_script, 1, keys, 3, args, NULL, e), e);
    free(text);
    if (n == 0) {
        err_set(e, ERR_CONFLICT, "there are %d webhooks already", (int)STORE_WEBHOOKS);
        return err_hint(e, "delete unused webhooks: `evenstep webhooks`");
    }
    return n < 0 ? n : 0;
}

json_t *store_webhook_get(struct store *s, const char *id, struct err *e)
{
    err_clear(e);
    redisReply *r = store_commandf(s, e, "HGET %s %s", key_text(KEY_WEBHOOKS), id);
    json_t *out = r ? reply_json(r, e) : NULL;
    freeReplyObject(r);
    if (!out && !e->code) {
        none_of(id, e);
    }
    return out;
}

json_t *store_webhooks(struct store *s, struct err *e)
{
    return documents_of(store_commandf(s, e, "HVALS %s", key_text(KEY_WEBHOOKS)), e);
}

/* The keys of one webhook; ERR_NOT_FOUND: it is no valid id. */
static int keys_of(const char *id, char queue[STORE_KEY], char tries[STORE_KEY], struct err *e)
{
    return key_named(queue, KEY_WEBHOOK_QUEUE, id, NULL) < 0 ||
                   key_named(tries, KEY_WEBHOOK_TRIES, id, NULL) < 0
               ? none_of(id, e)
               : 0;
}

int store_webhook_remove(struct store *s, const char *id, struct err *e)
{
    char queue[STORE_KEY], tries[STORE_KEY];
    int rc = keys_of(id, queue, tries, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {key_text(KEY_WEBHOOKS), queue, tries}, *args[] = {id};
    int n = number_of(store_script(s, &remove_script, 3, keys, 1, args, NULL, e), e);
    return n == 0 ? none_of(id, e) : n < 0 ? n : 0;
}

/* ---- deliveries ------------------------------------------------------------------------------ */

int store_webhook_queue(struct store *s, const char *id, const char *delivery,
                        const json_t *document, struct err *e)
{
    char queue[STORE_KEY], tries[STORE_KEY], most[NUMBER],
        *text = store_dump(document, "a delivery", e);
    int rc = text ? keys_of(id, queue, tries, e) : store_failed(e);
    snprintf(most, sizeof most, "%d", (int)STORE_WEBHOOK_WAITING);
    if (rc == 0) {
        const char *keys[] = {key_text(KEY_WEBHOOKS), queue}, *args[] = {id, delivery, text, most};
        rc = number_of(store_script(s, &queue_script, 2, keys, 4, args, NULL, e), e);
    }
    free(text);
    return rc;
}

json_t *store_webhook_waiting(struct store *s, const char *id, struct err *e)
{
    char queue[STORE_KEY], tries[STORE_KEY];
    return keys_of(id, queue, tries, e) < 0
               ? NULL
               : documents_of(store_commandf(s, e, "HVALS %s", queue), e);
}

int64_t store_webhook_count(struct store *s, const char *id, struct err *e)
{
    char queue[STORE_KEY], tries[STORE_KEY];
    int rc = keys_of(id, queue, tries, e);
    return rc < 0 ? rc : number_of(store_commandf(s, e, "HLEN %s", queue), e);
}

int store_webhook_tried(struct store *s, const char *id, const char *delivery, const json_t *left,
                        const json_t *tried, struct err *e)
{
    char queue[STORE_KEY], tries[STORE_KEY], most[NUMBER];
    char *waits = left ? store_dump(left, "a delivery", e) : NULL,
         *text = store_dump(tried, "a try of a delivery", e);
    int rc = (left && !waits) || !text ? store_failed(e) : keys_of(id, queue, tries, e);
    snprintf(most, sizeof most, "%d", (int)STORE_WEBHOOK_TRIES);
    if (rc == 0) {
        const char *keys[] = {key_text(KEY_WEBHOOKS), queue, tries},
                   *args[] = {id, delivery, waits ? waits : "", text, most};
        rc = number_of(store_script(s, &tried_script, 3, keys, 5, args, NULL, e), e);
    }
    free(waits);
    free(text);
    return rc < 0 ? rc : 0;
}

json_t *store_webhook_tries(struct store *s, const char *id, struct err *e)
{
    char queue[STORE_KEY], tries[STORE_KEY];
    return keys_of(id, queue, tries, e) < 0
               ? NULL
               : documents_of(store_commandf(s, e, "LRANGE %s 0 -1", tries), e);
}

/* ---- the place in the events ----------------------------------------------------------------- */

int store_webhook_place(struct store *s, char out[STORE_PLACE], struct err *e)
{
    const char *text = NULL;
    redisReply *r = store_commandf(s, e, "GET %s", key_text(KEY_WEBHOOK_PLACE));
    int got = r ? reply_text(r, &text, NULL, e) : store_failed(e);
    snprintf(out, STORE_PLACE, "%s", got > 0 && store_stream_valid(text) ? text : "0-0");
    freeReplyObject(r);
    return got < 0 ? got : 0;
}

int store_webhook_place_set(struct store *s, const char *place, struct err *e)
{
    const char *argv[] = {"SET", key_text(KEY_WEBHOOK_PLACE), place};
    return store_done(store_change(s, 3, argv, e), e);
}

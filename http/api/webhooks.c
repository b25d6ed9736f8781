/* Webhooks over the API: list, show, make, delete. This file puts webhooks into the store
 * (store/webhooks.h); the coordinator sends to them (coordinator/webhooks).
 *
 * An operator's webhook gets the changes of its maker's jobs, an admin's those of all jobs if so
 * wished. A webhook's address is checked once more, by number, at each delivery.
 */
#include "store/webhooks.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/machine/netaddr.h"
#include "common/sign.h"
#include "common/text/text.h"
#include "http/api/api.h"
#include "http/openapi/schemas.h"
#include "http/request/request.h"
#include "http/request/trail.h"
#include "job/documents/people/webhook.h"

enum { HOST_BYTES = 256 };

static const char *const secret_prefix = "whsec_"; /* as in Standard Webhooks */

/* ---- showing --------------------------------------------------------------------------------- */

static bool is_theirs(const struct request *q, const struct webhook *w)
{
    return q->who.role >= ROLE_ADMIN || (q->who.owner[0] && strcmp(w->owner, q->who.owner) == 0);
}

/* A webhook's document, with the waiting deliveries and the results of the last ones. */
static json_t *show(struct store *store, const struct webhook *w, struct err *e)
{
    int64_t waiting = store_webhook_count(store, w->id, e);
    json_t *tries = waiting < 0 ? NULL : store_webhook_tries(store, w->id, e);
    if (!tries) {
        return NULL;
    }
    json_t *shown = webhook_shown(w, false);
    json_object_set_new(shown, "waiting", json_integer(waiting));
    json_object_set_new(shown, "tries", tries);
    return shown;
}

int api_webhooks_list(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    json_t *all = store ? store_webhooks(store, e) : NULL, *list = json_array(), *one;
    size_t i;
    bool failed = !all;
    json_array_foreach(all, i, one) {
        struct webhook w;
        if (!failed && !(failed = webhook_read(&w, one, e) < 0) && is_theirs(q, &w)) {
            failed = json_array_append_new(list, show(store, &w, e)) < 0;
        }
    }
    json_decref(all);
    if (failed) {
        json_decref(list);
        return -(int)e->code;
    }
    return reply_set_json(out, 200, json_pack("{s:o}", "webhooks", list), e);
}

/* The webhook in the path, if it belongs to the sender; else ERR_NOT_FOUND. */
static int webhook_of(struct request *q, struct store *store, struct webhook *out, struct err *e)
{
    const char *id = q->match.args[0];
    if (!request_is_job(id)) { /* ids have one form */
        return err_set(e, ERR_NOT_FOUND, "there is no webhook '%.60s'", id);
    }
    json_t *kept = store_webhook_get(store, id, e);
    int rc = kept ? webhook_read(out, kept, e) : -(int)e->code;
    json_decref(kept);
    return rc == 0 && !is_theirs(q, out)
               ? err_set(e, ERR_NOT_FOUND, "there is no webhook '%.60s' of yours", id)
               : rc;
}

int api_webhook_get(struct request *q, struct reply *out, struct err *e)
{
    struct webhook w;
    struct store *store = request_store(q, e);
    json_t *shown = store && webhook_of(q, store, &w, e) == 0 ? show(store, &w, e) : NULL;
    return shown ? reply_set_json(out, 200, shown, e) : -(int)e->code;
}

int api_webhook_delete(struct request *q, struct reply *out, struct err *e)
{
    struct webhook w;
    struct store *store = request_store(q, e);
    int rc = store ? webhook_of(q, store, &w, e) : -(int)e->code;
    rc = rc == 0 ? store_webhook_remove(store, w.id, e) : rc;
    return rc < 0 ? rc : reply_set_empty(out, 204, e);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Reads the host of "https://HOST[:PORT][/…]" into out; false: it is something else. */
static bool read_host(const char *address, char out[HOST_BYTES])
{
    size_t scheme = strncmp(address, "https://", 8) == 0  ? 8
                    : strncmp(address, "http://", 7) == 0 ? 7
                                                          : 0;
    const char *at = address + scheme;
    size_t whole = strcspn(at, "/?#"),
           n = at[0] == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/?#");
    if (scheme == 0 || n == 0 || n > whole || n >= HOST_BYTES || memchr(at, '@', whole) ||
        (at[n] == ':' && strspn(at + n + 1, "0123456789") != whole - n - 1) ||
        (at[n] != ':' && n != whole)) {
        return false;
    }
    snprintf(out, HOST_BYTES, "%.*s", (int)n, at);
    return true;
}

static void read_address(struct request *q, const json_t *body, struct webhook *w,
                         char host[HOST_BYTES])
{
    const json_t *given = json_object_get(body, "address");
    const char *address = json_string_value(given);
    size_t n = json_string_length(given);
    host[0] = '\0';
    if (!address || n >= sizeof(w->address) || text_unsafe(address, n) < n ||
        strchr(address, ' ') || !read_host(address, host)) {
        jsonx_problem(&q->problems, "/address",
                      "expected http://HOST/… or https://HOST/… of at most %zu bytes, without a "
                      "user's name",
                      sizeof(w->address) - 1);
    } else if (!q->server->local_webhooks && netaddr_names_local(host)) {
        jsonx_problem(&q->problems, "/address",
                      "'%.100s' is this host, its own link or a metadata service: start the "
                      "service with --allow-local-webhooks to allow that",
                      host);
    } else {
        memcpy(w->address, address, n + 1);
    }
}

/* Reads which states are told. Left out: the ends of jobs. */
static void read_states(struct request *q, const json_t *body, struct webhook *w)
{
    const json_t *given = json_object_get(body, "states");
    json_t *one;
    size_t i;
    char pointer[64];
    for (int state = 0; !given && state < JOB_STATE_COUNT; state++) {
        if (jobstate_ended((enum job_state)state)) {
            webhook_add_state(w, (enum job_state)state);
        }
    }
    if (given && (!json_is_array(given) || json_array_size(given) == 0)) {
        jsonx_problem(&q->problems, "/states", "expected an array of one or more states");
    }
    json_array_foreach((json_t *)given, i, one) {
        const char *name = json_string_value(one);
        int state = name ? jobstate_find(name) : -1;
        if (state < 0) {
            snprintf(pointer, sizeof(pointer), "/states/%zu", i);
            jsonx_problem(&q->problems, pointer, "expected one of %s", SCHEMA_JOB_STATES);
        } else {
            webhook_add_state(w, (enum job_state)state);
        }
    }
}

static void read_scope(struct request *q, const json_t *body, struct webhook *w)
{
    const json_t *given = json_object_get(body, "scope");
    bool admin = q->who.role >= ROLE_ADMIN;
    const char *scope = given ? json_string_value(given) : admin ? "all" : "own";
    if (!scope || (strcmp(scope, "own") != 0 && strcmp(scope, "all") != 0)) {
        jsonx_problem(&q->problems, "/scope", "expected own or all");
        return;
    }
    w->own = strcmp(scope, "own") == 0;
}

/* Makes a secret: "whsec_" and 32 random bytes in base64. */
static int make_secret(char out[WEBHOOK_SECRET], struct err *e)
{
    struct sign_key key;
    size_t n = strlen(secret_prefix);
    int rc = sign_random(&key, e);
    if (rc >= 0) {
        snprintf(out, WEBHOOK_SECRET, "%s", secret_prefix);
        EVP_EncodeBlock((unsigned char *)out + n, key.bytes, sizeof(key.bytes));
    }
    OPENSSL_cleanse(&key, sizeof(key));
    return rc;
}

/* Gives the webhook an id, a secret and a position in the events, and saves it. */
static int keep(struct request *q, struct webhook *w, struct err *e)
{
    char hex[SIGN_HEX];
    struct sign_key random;
    struct store *store = request_store(q, e);
    if (!store || sign_random(&random, e) < 0 || make_secret(w->secret, e) < 0 ||
        store_events_newest(store, w->since, e) < 0) {
        return -(int)e->code;
    }
    sign_hex(&random, hex);
    snprintf(w->id, sizeof(w->id), "%.*s", STORE_ID - 1, hex);
    snprintf(w->owner, sizeof(w->owner), "%s", q->who.owner);
    clock_format(w->created, clock_wall_ms());
    json_t *kept = webhook_json(w);
    int rc = kept ? store_webhook_put(store, w->id, kept, e)
                  : err_set(e, ERR_MEMORY, "cannot make a webhook: memory ran out");
    json_decref(kept);
    return rc;
}

static int make(struct request *q, struct reply *out, const json_t *body, struct err *e)
{
    char host[HOST_BYTES], location[64];
    struct webhook w = {.n_states = 0};
    read_address(q, body, &w, host);
    read_scope(q, body, &w);
    read_states(q, body, &w);
    if (q->problems.count > 0) {
        return request_not_valid(q, "the webhook", e);
    }
    if (!w.own && q->who.role < ROLE_ADMIN) {
        return err_set(e, ERR_FORBIDDEN,
                       "a webhook for everybody's jobs needs the role admin; one for your own has "
                       "the scope own");
    }
    int rc = keep(q, &w, e);
    if (rc == 0) {
        trail_note(q, "webhook %s to %s, of %s jobs", w.id, host, w.own ? "own" : "all");
        snprintf(location, sizeof(location), "/api/v1/webhooks/%s", w.id);
        rc = reply_set_json(out, 201, webhook_shown(&w, true), e);
        reply_header(out, "Location", location);
    }
    OPENSSL_cleanse(w.secret, sizeof(w.secret));
    return rc;
}

int api_webhook_make(struct request *q, struct reply *out, struct err *e)
{
    static const char *const keys[] = {"address", "states", "scope", NULL};
    json_t *body = request_object(q, keys, e);
    int rc = body ? make(q, out, body, e) : -(int)e->code;
    json_decref(body);
    return rc;
}

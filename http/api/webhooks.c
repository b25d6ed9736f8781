/* Webhooks over the API: list, show, make, delete. Who sends what they are told is the coordinator
 * (coordinator/webhooks); here they are only put into the store (store/webhooks.h).
 *
 * An operator's webhook is told of the jobs of its maker, an admin's of everybody's if so wished.
 * Its address is checked once more, by number, whenever something is sent there.
 */
#include "store/webhooks.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/netaddr.h"
#include "common/sign.h"
#include "common/text.h"
#include "http/api/api.h"
#include "http/api/schemas.h"
#include "http/request.h"
#include "http/trail.h"

enum { ADDRESS_BYTES = 500, HOST_BYTES = 256, SECRET_BYTES = 64 };

static const char *const secret_prefix = "whsec_"; /* as Standard Webhooks has it */

/* ---- showing --------------------------------------------------------------------------------- */

static bool is_theirs(const struct request *q, const json_t *webhook)
{
    return q->who.role >= ROLE_ADMIN ||
           (q->who.owner[0] && strcmp(jsonx_string_at(webhook, "owner"), q->who.owner) == 0);
}

/* Without what is nobody's business, with what waits and what became of the last deliveries. Takes
 * `webhook`. */
static json_t *show(struct store *store, json_t *webhook, struct err *e)
{
    const char *id = jsonx_string_at(webhook, "id");
    int64_t waiting = store_webhook_count(store, id, e);
    json_t *tries = waiting < 0 ? NULL : store_webhook_tries(store, id, e);
    json_object_del(webhook, "secret");
    json_object_del(webhook, "since");
    if (!tries) {
        json_decref(webhook);
        return NULL;
    }
    json_object_set_new(webhook, "waiting", json_integer(waiting));
    json_object_set_new(webhook, "tries", tries);
    return webhook;
}

int api_webhooks_list(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    json_t *all = store ? store_webhooks(store, e) : NULL, *list = json_array(), *one;
    size_t i;
    bool failed = !all;
    json_array_foreach(all, i, one) {
        if (!failed && is_theirs(q, one)) {
            failed = json_array_append_new(list, show(store, json_incref(one), e)) < 0;
        }
    }
    json_decref(all);
    if (failed) {
        json_decref(list);
        return -(int)e->code;
    }
    return reply_set_json(out, 200, json_pack("{s:o}", "webhooks", list), e);
}

/* The webhook of the path, if it is that of who asks. New reference; NULL with ERR_NOT_FOUND. */
static json_t *webhook_of(struct request *q, struct store *store, struct err *e)
{
    const char *id = q->match.args[0];
    json_t *webhook = NULL;
    if (!request_is_job(id)) { /* ids have one form */
        err_set(e, ERR_NOT_FOUND, "there is no webhook '%.60s'", id);
    } else if ((webhook = store_webhook_get(store, id, e)) && !is_theirs(q, webhook)) {
        json_decref(webhook);
        webhook = NULL;
        err_set(e, ERR_NOT_FOUND, "there is no webhook '%.60s' of yours", id);
    }
    return webhook;
}

int api_webhook_get(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    json_t *webhook = store ? webhook_of(q, store, e) : NULL,
           *shown = webhook ? show(store, webhook, e) : NULL;
    return shown ? reply_set_json(out, 200, shown, e) : -(int)e->code;
}

int api_webhook_delete(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    json_t *webhook = store ? webhook_of(q, store, e) : NULL;
    int rc = webhook ? store_webhook_remove(store, q->match.args[0], e) : -(int)e->code;
    json_decref(webhook);
    return rc < 0 ? rc : reply_set_empty(out, 204, e);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* "https://HOST[:PORT][/…]" with a plain host, which goes into out; false: it is something else. */
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

static const char *read_address(struct request *q, const json_t *body, char host[HOST_BYTES])
{
    const json_t *given = json_object_get(body, "address");
    const char *address = json_string_value(given);
    size_t n = json_string_length(given);
    host[0] = '\0';
    if (!address || n > ADDRESS_BYTES || text_unsafe(address, n) < n || strchr(address, ' ') ||
        !read_host(address, host)) {
        jsonx_problem(&q->problems, "/address",
                      "expected http://HOST/… or https://HOST/… of at most %d bytes, without a "
                      "user's name",
                      (int)ADDRESS_BYTES);
    } else if (!q->server->local_webhooks && netaddr_names_local(host)) {
        jsonx_problem(&q->problems, "/address",
                      "'%.100s' is this host, its own link or a metadata service: start the "
                      "service with --allow-local-webhooks to allow that",
                      host);
    }
    return address;
}

static bool has_text(const json_t *list, const char *text)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)list, i, one) {
        if (strcmp(json_string_value(one), text) == 0) {
            return true;
        }
    }
    return false;
}

/* New reference. Left out: the ends of jobs. */
static json_t *read_states(struct request *q, const json_t *body)
{
    const json_t *given = json_object_get(body, "states");
    json_t *list = json_array(), *one;
    size_t i;
    char pointer[64];
    for (int state = 0; !given && state < JOB_STATE_COUNT; state++) {
        if (jobstate_ended((enum job_state)state)) {
            json_array_append_new(list, json_string(jobstate_name((enum job_state)state)));
        }
    }
    if (given && (!json_is_array(given) || json_array_size(given) == 0)) {
        jsonx_problem(&q->problems, "/states", "expected an array of one or more states");
    }
    json_array_foreach((json_t *)given, i, one) {
        const char *name = json_string_value(one);
        if (!name || jobstate_find(name) < 0) {
            snprintf(pointer, sizeof(pointer), "/states/%zu", i);
            jsonx_problem(&q->problems, pointer, "expected one of %s", SCHEMA_JOB_STATES);
        } else if (!has_text(list, name)) {
            json_array_append(list, one);
        }
    }
    return list;
}

static const char *read_scope(struct request *q, const json_t *body)
{
    const json_t *given = json_object_get(body, "scope");
    bool admin = q->who.role >= ROLE_ADMIN;
    const char *scope = given ? json_string_value(given) : admin ? "all" : "own";
    if (!scope || (strcmp(scope, "own") != 0 && strcmp(scope, "all") != 0)) {
        jsonx_problem(&q->problems, "/scope", "expected own or all");
    }
    return scope;
}

/* "whsec_" and 32 random bytes in base 64. */
static int make_secret(char out[SECRET_BYTES], struct err *e)
{
    struct sign_key key;
    size_t n = strlen(secret_prefix);
    int rc = sign_random(&key, e);
    if (rc >= 0) {
        snprintf(out, SECRET_BYTES, "%s", secret_prefix);
        EVP_EncodeBlock((unsigned char *)out + n, key.bytes, sizeof(key.bytes));
    }
    OPENSSL_cleanse(&key, sizeof(key));
    return rc;
}

/* Takes `states`. */
static json_t *make_webhook(struct request *q, const char *address, json_t *states,
                            const char *scope, struct err *e)
{
    char secret[SECRET_BYTES], hex[SIGN_HEX], id[STORE_ID], since[STORE_PLACE], now[32];
    struct sign_key random;
    struct store *store = request_store(q, e);
    json_t *made = NULL;
    if (store && sign_random(&random, e) >= 0 && make_secret(secret, e) >= 0 &&
        store_events_newest(store, since, e) >= 0) {
        sign_hex(&random, hex);
        snprintf(id, sizeof(id), "%.*s", STORE_ID - 1, hex);
        made = json_pack("{s:s, s:s, s:O, s:s, s:s, s:s, s:s, s:s}", "id", id, "address", address,
                         "states", states, "scope", scope, "owner", q->who.owner, "created",
                         clock_format(now, clock_wall_ms()), "since", since, "secret", secret);
        if (!made) {
            err_set(e, ERR_MEMORY, "cannot make a webhook: memory ran out");
        } else if (store_webhook_put(store, id, made, e) < 0) {
            json_decref(made);
            made = NULL;
        }
    }
    OPENSSL_cleanse(secret, sizeof(secret));
    json_decref(states);
    return made;
}

static int make(struct request *q, struct reply *out, const json_t *body, struct err *e)
{
    char host[HOST_BYTES], location[64];
    const char *address = read_address(q, body, host), *scope = read_scope(q, body);
    json_t *states = read_states(q, body);
    if (q->problems.count > 0) {
        json_decref(states);
        return request_not_valid(q, "the webhook", e);
    }
    if (strcmp(scope, "all") == 0 && q->who.role < ROLE_ADMIN) {
        json_decref(states);
        return err_set(e, ERR_FORBIDDEN,
                       "a webhook for everybody's jobs needs the role admin; one for your own has "
                       "the scope own");
    }
    json_t *made = make_webhook(q, address, states, scope, e);
    if (!made) {
        return -(int)e->code;
    }
    const char *id = jsonx_string_at(made, "id");
    trail_note(q, "webhook %s to %s, of %s jobs", id, host,
               strcmp(scope, "all") == 0 ? "all" : "own");
    snprintf(location, sizeof(location), "/api/v1/webhooks/%s", id);
    json_object_del(made, "since");
    int rc = reply_set_json(out, 201, made, e);
    reply_header(out, "Location", location);
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

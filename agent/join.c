/* The agent's half of joining: see join.h. A refusal with a wrong signature is reported too, and
 * named so: usually the secret is wrong. A process that can only write to the store can make an
 * agent wait, but cannot make it accept a coordinator.
 */
#include "agent/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "job/documents/hosts/joining.h"
#include "job/hostkey.h"

static int take_welcome(const json_t *body, const struct sign_key *secret, const char *nonce,
                        struct welcome *out, struct err *e)
{
    struct joining_answer a;
    joining_answer_read(&a, body);
    if (!a.accepted) {
        err_set(e, ERR_FORBIDDEN, "%s",
                a.message[0] ? a.message : "the coordinator refused this host");
        return a.hint[0] ? err_hint(e, "%s", a.hint) : -ERR_FORBIDDEN;
    }
    if (strlen(a.salt) != SIGN_HEX - 1 || sign_unhex(a.key, &out->key, NULL) < 0 ||
        !a.coordinator[0]) {
        return err_set(e, ERR_SYNTAX, "the coordinator's answer is malformed");
    }
    hostkey_wrap(secret, nonce, a.salt, &out->key);
    snprintf(out->coordinator, sizeof out->coordinator, "%s", a.coordinator);
    out->own_user = a.own_user;
    return 0;
}

static int open_answer(const char *text, const struct sign_key *secret, const char *nonce,
                       struct welcome *out, struct err *e)
{
    struct sign_key key;
    hostkey_welcome(secret, nonce, &key);
    json_t *body = sign_open(&key, "welcome", text, NULL);
    if (body) {
        int rc = take_welcome(body, secret, nonce, out, e);
        json_decref(body);
        return rc;
    }
    err_set(e, ERR_FORBIDDEN,
            "the coordinator's answer is signed with another secret than this agent's");
    return err_hint(e, "give this agent the coordinator's secret: --secret-file");
}

int join_ask(struct store *s, const struct sign_key *secret, const json_t *who, double patience,
             const volatile sig_atomic_t *stop, struct welcome *out, struct err *e)
{
    struct sign_key key;
    char nonce[SIGN_HEX], box[96];
    json_t *body = json_deep_copy(who);
    char *text = NULL;
    hostkey_join(secret, &key);
    int rc = body ? sign_stamp(body, clock_wall_ms(), nonce, e)
                  : err_set(e, ERR_MEMORY, "cannot join: memory ran out");
    if (rc == 0) {
        text = sign_seal(&key, "join", body, e);
        rc = text ? store_mail_put(s, "join", text, SIGN_WINDOW_MS / 1000, e) : -ERR_MEMORY;
    }
    json_decref(body);
    free(text);
    snprintf(box, sizeof box, "welcome.%s", rc == 0 ? nonce : "");
    double until = clock_now() + patience;
    while (rc == 0) {
        struct err why = {0};
        char *answer = store_mail_take(s, box, 0, &why);
        if (answer) {
            rc = open_answer(answer, secret, nonce, out, e);
            free(answer);
            return rc;
        }
        if (why.code != ERR_NONE) {
            *e = why;
            return -(int)why.code;
        }
        if (*stop) {
            return err_set(e, ERR_CANCELLED, "this agent was told to stop");
        }
        if (clock_now() >= until) {
            return err_set(e, ERR_TIMEOUT, "no coordinator answers at the store '%s'",
                           store_url(s));
        }
        clock_sleep(0.05);
    }
    return rc;
}

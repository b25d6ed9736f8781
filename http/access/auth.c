/* Sessions and link codes; see auth.h. Sessions are also kept in memory, so that an open page stays
 * known while the store is away. In the store a session is "ROLE TOKEN NAME" and a code "ROLE
 * TOKEN", where TOKEN is the id of the token behind it, or "-".
 */
#include "http/access/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/log.h"
#include "http/access/issued.h"
#include "store/store.h"

enum { MAX_SESSIONS = 512, HASH = SHA256_DIGEST_LENGTH, REFUSALS_PER_MINUTE = 60 };

struct session {
    unsigned char hash[HASH];
    struct identity who;
    double until; /* clock_now(); 0: free */
};

struct auth {
    struct tokens *tokens; /* these two have locks of their own */
    struct issued *issued;
    pthread_mutex_t lock; /* of everything below */
    struct session sessions[MAX_SESSIONS];
    struct clock_minute refusals;
};

struct auth *auth_open(const char *token_file, const char *issued_file, struct err *e)
{
    struct auth *a = calloc(1, sizeof(*a));
    if (!a) {
        err_set(e, ERR_MEMORY, "cannot keep sessions: memory ran out");
        return NULL;
    }
    a->tokens = tokens_open(token_file, e);
    a->issued = a->tokens ? issued_open(issued_file, e) : NULL;
    if (!a->issued) {
        tokens_close(a->tokens);
        free(a);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void auth_close(struct auth *a)
{
    if (a) {
        tokens_close(a->tokens);
        issued_close(a->issued);
        pthread_mutex_destroy(&a->lock);
        OPENSSL_cleanse(a, sizeof(*a));
        free(a);
    }
}

static void hash_of(const char *text, unsigned char out[HASH])
{
    SHA256((const unsigned char *)text, strlen(text), out);
}

/* The name of a secret. The store hashes such names, so its contents reveal no code or session. */
static void secret_key(const char *prefix, const char *value, char out[96])
{
    snprintf(out, 96, "%s:%.80s", prefix, value);
}

struct tokens *auth_tokens(struct auth *a)
{
    return a->tokens;
}

struct issued *auth_issued(struct auth *a)
{
    return a->issued;
}

/* It always searches both lists, so the time reveals nothing. */
static enum issued_found token_find(struct auth *a, const char *text, struct identity *who)
{
    struct token token, line;
    enum issued_found found = issued_find(a->issued, text, &token);
    if (tokens_find(a->tokens, text, &line)) {
        token = line;
        found = ISSUED_GOOD;
    }
    if (found == ISSUED_GOOD) {
        who->role = token.role;
        memcpy(who->name, token.name, sizeof(who->name));
        memcpy(who->owner, token.name, sizeof(who->owner));
        memcpy(who->token, token.id, sizeof(who->token));
    }
    return found;
}

bool auth_still(struct auth *a, struct identity *who)
{
    struct token token;
    if (who->by_proxy) {
        return true; /* a proxy's sign-in holds while the service runs, as its options say */
    }
    if (who->token[0] == '\0') {
        snprintf(who->owner, sizeof(who->owner), "%s", auth_role_name(ROLE_ADMIN));
        return true;
    }
    if (!tokens_still(a->tokens, who->token, &token) &&
        issued_still(a->issued, who->token, &token) != ISSUED_GOOD) {
        return false;
    }
    who->role = who->role < token.role ? who->role : token.role;
    memcpy(who->owner, token.name, sizeof(who->owner));
    return true;
}

/* ---- sessions -------------------------------------------------------------------------------- */

bool auth_cookie(const char *cookie, int port, char session[AUTH_TOKEN])
{
    char name[32];
    size_t n = (size_t)snprintf(name, sizeof(name), "evenstep_%d=", port);
    for (const char *at = cookie; at; at = strchr(at, ';')) {
        at += strspn(at, "; ");
        if (strncmp(at, name, n) == 0) {
            size_t len = strspn(at + n, "0123456789abcdef");
            if (len != AUTH_TOKEN - 1 || (at[n + len] != '\0' && at[n + len] != ';')) {
                return false;
            }
            memcpy(session, at + n, len);
            session[len] = '\0';
            return true;
        }
    }
    return false;
}

/* Keeps a session in memory, in place of the one that ends first. */
static void session_keep(struct auth *a, const char *session, const struct identity *who,
                         double seconds)
{
    struct session *slot = &a->sessions[0];
    pthread_mutex_lock(&a->lock);
    for (int i = 1; i < MAX_SESSIONS; i++) {
        if (a->sessions[i].until < slot->until) {
            slot = &a->sessions[i];
        }
    }
    hash_of(session, slot->hash);
    slot->who = *who;
    slot->until = clock_now() + seconds;
    pthread_mutex_unlock(&a->lock);
}

/* Finds a session in memory. `forget`: ends it. */
static bool session_known(struct auth *a, const char *session, struct identity *who, bool forget)
{
    unsigned char hash[HASH];
    bool found = false;
    hash_of(session, hash);
    double now = clock_now();
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < MAX_SESSIONS; i++) {
        if (a->sessions[i].until > now && CRYPTO_memcmp(hash, a->sessions[i].hash, HASH) == 0) {
            *who = a->sessions[i].who;
            found = true;
            if (forget) {
                a->sessions[i].until = 0;
            }
        }
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

static int session_gone(struct err *e)
{
    return err_set(e, ERR_UNAUTHORIZED, "this session has ended or is not known");
}

/* Reads "ROLE TOKEN NAME", or a code's "ROLE TOKEN". */
static bool read_secret(const char *text, struct identity *who)
{
    char role[16] = "", token[TOKEN_ID] = "", name[AUTH_NAME] = "";
    if (sscanf(text, "%15s %16s %63[^\n]", role, token, name) < 2) {
        return false;
    }
    who->role = auth_role_find(role);
    snprintf(who->token, sizeof(who->token), "%s", strcmp(token, "-") == 0 ? "" : token);
    snprintf(who->name, sizeof(who->name), "%s", name);
    return who->role != ROLE_NONE;
}

static const char *token_or_dash(const char *id)
{
    return id[0] ? id : "-";
}

/* Finds a session in the store, where those of earlier runs of the server are. */
static int session_of_store(struct auth *a, struct store *s, const char *session,
                            struct identity *who, struct err *e)
{
    char key[96];
    if (!s) {
        return err_set(e, ERR_UNAVAILABLE, "this session is not known yet, and the store is away");
    }
    secret_key("session", session, key);
    err_clear(e);
    char *value = store_secret_get(s, key, e);
    if (!value) {
        return e->code == ERR_UNAVAILABLE ? -(int)ERR_UNAVAILABLE : session_gone(e);
    }
    bool good = read_secret(value, who);
    free(value);
    if (!good) {
        return session_gone(e);
    }
    who->by_cookie = true;
    session_keep(a, session, who, 600); /* only the store knows when it ends */
    return 0;
}

static int session_find(struct auth *a, struct store *s, const char *session, struct identity *who,
                        struct err *e)
{
    if (!session_known(a, session, who, false)) {
        int rc = session_of_store(a, s, session, who, e);
        if (rc < 0) {
            return rc;
        }
    }
    if (!auth_still(a, who)) {
        who->role = ROLE_NONE;
        return session_gone(e);
    }
    return 0;
}

static int token_judged(enum issued_found found, struct err *e)
{
    if (found == ISSUED_ENDED) {
        err_set(e, ERR_UNAUTHORIZED, "this token has expired");
        return err_hint(e, "an admin issues another: `evenstep token create`");
    }
    if (found == ISSUED_UNKNOWN) {
        err_set(e, ERR_UNAUTHORIZED, "this token is not known");
        return err_hint(e, "the admin's token is in the file 'token' of the data directory");
    }
    return 0;
}

int auth_identify(struct auth *a, struct store *s, const char *authorization, const char *cookie,
                  int port, struct identity *who, struct err *e)
{
    char session[AUTH_TOKEN];
    memset(who, 0, sizeof(*who));
    if (authorization) {
        const char *token = authorization + strcspn(authorization, " ");
        token += strspn(token, " ");
        bool bearer = strncasecmp(authorization, "Bearer ", 7) == 0;
        return token_judged(bearer ? token_find(a, token, who) : ISSUED_UNKNOWN, e);
    }
    if (cookie && auth_cookie(cookie, port, session)) {
        int found = session_find(a, s, session, who, e);
        who->by_cookie = true;
        return found;
    }
    return 0;
}

int auth_session_start(struct auth *a, struct store *s, const char *token, char session[AUTH_TOKEN],
                       struct identity *who, struct err *e)
{
    char key[96], value[128];
    memset(who, 0, sizeof(*who));
    if (token_find(a, token, who) != ISSUED_GOOD) {
        secret_key("link", token, key);
        err_clear(e);
        char *code = s ? store_secret_take(s, key, e) : NULL;
        if (!code && e->code == ERR_UNAVAILABLE) {
            return -(int)ERR_UNAVAILABLE;
        }
        bool good = code && read_secret(code, who) && auth_still(a, who);
        free(code);
        if (!good) {
            who->role = ROLE_NONE;
            err_set(e, ERR_UNAUTHORIZED,
                    "this link or token is not known, was used before, or is older than 24 hours");
            return err_hint(e, "`evenstep link` prints a fresh address");
        }
        snprintf(who->name, sizeof(who->name), "link");
    }
    who->by_cookie = true;
    if (token_make(session, e) < 0) {
        return -(int)e->code;
    }
    snprintf(value, sizeof(value), "%s %s %s", auth_role_name(who->role), token_or_dash(who->token),
             who->name);
    secret_key("session", session, key);
    if (!s || store_secret_put(s, key, value, AUTH_SESSION_SECONDS, e) < 0) {
        log_debug("http", "the store is away, this session is kept in memory only", "%s", "");
    }
    session_keep(a, session, who, AUTH_SESSION_SECONDS);
    return 0;
}

int auth_session_end(struct auth *a, struct store *s, const char *cookie, int port, struct err *e)
{
    char session[AUTH_TOKEN], key[96];
    struct identity who;
    if (!cookie || !auth_cookie(cookie, port, session)) {
        return 0;
    }
    session_known(a, session, &who, true);
    secret_key("session", session, key);
    err_clear(e);
    free(s ? store_secret_take(s, key, e) : NULL);
    return e->code == ERR_UNAVAILABLE ? -(int)ERR_UNAVAILABLE : 0;
}

int auth_link(struct store *s, enum auth_role role, const char *maker, char code[AUTH_TOKEN],
              struct err *e)
{
    char key[96], value[64];
    if (token_make(code, e) < 0) {
        return -(int)e->code;
    }
    secret_key("link", code, key);
    snprintf(value, sizeof(value), "%s %s", auth_role_name(role), token_or_dash(maker));
    return store_secret_put(s, key, value, AUTH_LINK_SECONDS, e);
}

bool auth_refused(struct auth *a)
{
    pthread_mutex_lock(&a->lock);
    bool many = clock_minute_over(&a->refusals, REFUSALS_PER_MINUTE);
    pthread_mutex_unlock(&a->lock);
    return many;
}

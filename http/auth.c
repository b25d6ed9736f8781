/* Tokens, sessions, link codes; see auth.h. Sessions are also kept in memory, so that an open page
 * stays known while the store is away. A token is compared with every line of the token file,
 * whether or not one has matched already, and only hashes are compared: the time tells nothing.
 */
#include "http/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/hex.h"
#include "common/log.h"
#include "common/proc.h"
#include "store/store.h"

enum {
    MAX_TOKENS = 256,
    MAX_SESSIONS = 512,
    HASH = SHA256_DIGEST_LENGTH,
    REFUSALS_PER_MINUTE = 60
};

struct token {
    unsigned char hash[HASH];
    enum auth_role role;
    char name[AUTH_NAME];
};

struct session {
    unsigned char hash[HASH];
    struct identity who;
    double until; /* clock_now(); 0: free */
};

struct auth {
    pthread_mutex_t lock; /* of everything below */
    char path[512];
    struct timespec changed;
    double checked;
    struct token tokens[MAX_TOKENS];
    int n_tokens;
    struct session sessions[MAX_SESSIONS];
    double minute;
    int refusals;
};

static const char *const role_names[] = {"none", "viewer", "operator", "programs", "admin"};

const char *auth_role_name(enum auth_role role)
{
    return role_names[role];
}

static enum auth_role role_find(const char *name)
{
    for (int i = ROLE_VIEWER; i <= ROLE_ADMIN; i++) {
        if (strcmp(role_names[i], name) == 0) {
            return (enum auth_role)i;
        }
    }
    return ROLE_NONE;
}

static void hash_of(const char *text, unsigned char out[HASH])
{
    SHA256((const unsigned char *)text, strlen(text), out);
}

static int make_token(char out[AUTH_TOKEN], struct err *e)
{
    unsigned char bytes[(AUTH_TOKEN - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return err_errno(e, ERR_INTERNAL, "cannot make a token: no random bytes");
    }
    hex_of(out, bytes, sizeof(bytes));
    return 0;
}

/* The store hashes the names of its secrets, so what stands there tells nobody a code or a session.
 */
static void secret_key(const char *prefix, const char *value, char out[96])
{
    snprintf(out, 96, "%s:%.80s", prefix, value);
}

/* ---- the token file -------------------------------------------------------------------------- */

static int read_line(struct token *t, char *line, const char *path, int number, struct err *e)
{
    char *save = NULL, *token = strtok_r(line, " \t\r", &save);
    if (!token || *token == '#') {
        return 0;
    }
    char *role = strtok_r(NULL, " \t\r", &save), *name = strtok_r(NULL, "\r", &save);
    if (strlen(token) < 16) {
        return err_set(
            e, ERR_INVALID,
            "cannot read token file '%s': the token in line %d has less than 16 characters", path,
            number);
    }
    t->role = role ? role_find(role) : ROLE_ADMIN;
    if (t->role == ROLE_NONE) {
        return err_set(
            e, ERR_INVALID,
            "cannot read token file '%s': the role in line %d is not viewer, operator, programs or admin",
            path, number);
    }
    snprintf(t->name, sizeof(t->name), "%s", name ? name : auth_role_name(t->role));
    hash_of(token, t->hash);
    return 1;
}

static int read_tokens(struct auth *a, struct err *e)
{
    struct token tokens[MAX_TOKENS];
    int n = 0, number = 0, got = 0;
    char *text = proc_read_file(a->path, 64 << 10, NULL, e);
    if (!text) {
        return -(int)e->code;
    }
    for (char *line = text, *next; line && got >= 0; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        if (n == MAX_TOKENS) {
            got = err_set(e, ERR_INVALID, "cannot read token file '%s': it has more than %d tokens",
                          a->path, MAX_TOKENS);
        } else if ((got = read_line(&tokens[n], line, a->path, ++number, e)) > 0) {
            n++;
        }
    }
    free(text);
    if (got < 0) {
        return got;
    }
    if (n == 0) {
        return err_set(e, ERR_INVALID, "cannot read token file '%s': it has no token", a->path);
    }
    memcpy(a->tokens, tokens, sizeof(tokens[0]) * (size_t)n);
    a->n_tokens = n;
    return 0;
}

/* Once a second at most: has the file changed? A file that is gone or malformed leaves the tokens
 * as they were. */
static void reread_tokens(struct auth *a)
{
    struct stat st;
    struct err e;
    double now = clock_now();
    if (now < a->checked + 1 || stat(a->path, &st) < 0) {
        return;
    }
    a->checked = now;
    if (st.st_mtim.tv_sec == a->changed.tv_sec && st.st_mtim.tv_nsec == a->changed.tv_nsec) {
        return;
    }
    a->changed = st.st_mtim;
    if (read_tokens(a, &e) < 0) {
        log_warn("http", "the token file is not valid, the tokens stay as they were",
                 "reason=\"%s\"", e.message);
    } else {
        log_info("http", "the token file was read again", "tokens=%d", a->n_tokens);
    }
}

struct auth *auth_open(const char *token_file, struct err *e)
{
    struct stat st;
    struct auth *a = calloc(1, sizeof(*a));
    if (!a) {
        err_set(e, ERR_MEMORY, "cannot read token file '%s': memory ran out", token_file);
        return NULL;
    }
    snprintf(a->path, sizeof(a->path), "%s", token_file);
    if (stat(token_file, &st) < 0) {
        char line[AUTH_TOKEN + 1];
        if (make_token(line, e) < 0) {
            free(a);
            return NULL;
        }
        line[AUTH_TOKEN - 1] = '\n';
        int wrote = proc_write_file(token_file, line, AUTH_TOKEN, 0600, e);
        if (wrote < 0 || stat(token_file, &st) < 0) {
            free(a);
            return NULL;
        }
    }
    if (st.st_mode & 077) {
        log_warn("http", "the token file can be read by others", "path=%s", token_file);
    }
    a->changed = st.st_mtim;
    a->checked = clock_now();
    if (read_tokens(a, e) < 0) {
        free(a);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void auth_close(struct auth *a)
{
    if (a) {
        pthread_mutex_destroy(&a->lock);
        OPENSSL_cleanse(a, sizeof(*a));
        free(a);
    }
}

static bool token_find(struct auth *a, const char *text, struct identity *who)
{
    unsigned char hash[HASH];
    bool found = false;
    hash_of(text, hash);
    pthread_mutex_lock(&a->lock);
    reread_tokens(a);
    for (int i = 0; i < a->n_tokens; i++) {
        if (CRYPTO_memcmp(hash, a->tokens[i].hash, HASH) == 0) {
            who->role = a->tokens[i].role;
            memcpy(who->name, a->tokens[i].name, sizeof(who->name));
            found = true;
        }
    }
    pthread_mutex_unlock(&a->lock);
    return found;
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

/* Keeps a session in memory; the one that ends first makes room. */
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

/* Sessions of an earlier run of the server are known to the store alone. Stored as "ROLE NAME". */
static int session_find(struct auth *a, struct store *s, const char *session, struct identity *who,
                        struct err *e)
{
    char key[96], role[16] = "", name[AUTH_NAME] = "";
    if (session_known(a, session, who, false)) {
        return 0;
    }
    secret_key("session", session, key);
    err_clear(e);
    char *value = s ? store_secret_get(s, key, e) : NULL;
    if (!value) {
        return e->code == ERR_UNAVAILABLE
                   ? -(int)ERR_UNAVAILABLE
                   : err_set(e, ERR_UNAUTHORIZED, "this session has ended or is not known");
    }
    sscanf(value, "%15s %63[^\n]", role, name);
    free(value);
    who->role = role_find(role);
    snprintf(who->name, sizeof(who->name), "%s", name);
    if (who->role == ROLE_NONE) {
        return err_set(e, ERR_UNAUTHORIZED, "this session has ended or is not known");
    }
    who->by_cookie = true;
    session_keep(a, session, who, 600); /* the store goes on knowing when it ends */
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
        if (strncasecmp(authorization, "Bearer ", 7) != 0 || !token_find(a, token, who)) {
            err_set(e, ERR_UNAUTHORIZED, "this token is not known");
            return err_hint(e, "the admin's token is in the file 'token' of the data directory");
        }
        return 0;
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
    if (!token_find(a, token, who)) {
        secret_key("link", token, key);
        err_clear(e);
        char *role = s ? store_secret_take(s, key, e) : NULL;
        if (!role && e->code == ERR_UNAVAILABLE) {
            return -(int)ERR_UNAVAILABLE;
        }
        who->role = role ? role_find(role) : ROLE_NONE;
        snprintf(who->name, sizeof(who->name), "link");
        free(role);
        if (who->role == ROLE_NONE) {
            err_set(e, ERR_UNAUTHORIZED,
                    "this link or token is not known, was used before, or is older than 24 hours");
            return err_hint(e, "`evenstep link` prints a fresh address");
        }
    }
    who->by_cookie = true;
    if (make_token(session, e) < 0) {
        return -(int)e->code;
    }
    snprintf(value, sizeof(value), "%s %s", auth_role_name(who->role), who->name);
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

int auth_link(struct store *s, enum auth_role role, char code[AUTH_TOKEN], struct err *e)
{
    char key[96];
    if (make_token(code, e) < 0) {
        return -(int)e->code;
    }
    secret_key("link", code, key);
    return store_secret_put(s, key, auth_role_name(role), AUTH_LINK_SECONDS, e);
}

bool auth_refused(struct auth *a)
{
    pthread_mutex_lock(&a->lock);
    double now = clock_now();
    if (now > a->minute + 60) {
        a->minute = now;
        a->refusals = 0;
    }
    bool many = ++a->refusals > REFUSALS_PER_MINUTE;
    pthread_mutex_unlock(&a->lock);
    return many;
}

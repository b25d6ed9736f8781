/* The token file; see tokens.h. A token is compared with every line, even after a match, and only
 * hashes are compared. So the time reveals nothing.
 */
#include "http/access/tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/text/hex.h"
#include "common/json/jsonx.h"
#include "common/log.h"
#include "common/path.h"
#include "common/process/proc.h"
#include "common/text/text.h"

enum { MAX_TOKENS = 256, HASH = SHA256_DIGEST_LENGTH };

struct line {
    unsigned char hash[HASH];
    struct token token;
};

struct tokens {
    pthread_mutex_t lock; /* of everything below */
    struct path_watch file;
    struct line lines[MAX_TOKENS];
    int n;
};

static const char *const role_names[] = {"none", "viewer", "operator", "programs", "admin"};

const char *auth_role_name(enum auth_role role)
{
    return role_names[role];
}

enum auth_role auth_role_find(const char *name)
{
    for (int i = ROLE_VIEWER; i <= ROLE_ADMIN; i++) {
        if (strcmp(role_names[i], name) == 0) {
            return (enum auth_role)i;
        }
    }
    return ROLE_NONE;
}

int token_make(char out[AUTH_TOKEN], struct err *e)
{
    unsigned char bytes[(AUTH_TOKEN - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return err_errno(e, ERR_INTERNAL, "cannot make a token: no random bytes");
    }
    hex_of(out, bytes, sizeof(bytes));
    return 0;
}

static void hash_of(const char *text, unsigned char out[HASH])
{
    SHA256((const unsigned char *)text, strlen(text), out);
}

enum read { READ_NOTHING, READ_TOKEN };

static bool is_ascii(const char *text)
{
    while (*text >= '!' && *text <= '~') {
        text++;
    }
    return !*text;
}

/* Reads the name, which is the rest of a line without the blanks around it. Returns what is wrong
 * with it, or NULL. */
static const char *read_name(char out[AUTH_NAME], char *text, char wrong[TEXT_WRONG])
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t", text[n - 1])) {
        n--;
    }
    if (n >= AUTH_NAME) {
        snprintf(wrong, TEXT_WRONG, "has more than %d bytes", AUTH_NAME - 1);
        return wrong;
    }
    snprintf(out, AUTH_NAME, "%.*s", (int)n, text);
    return n > 0 ? text_name_wrong(wrong, out, n) : NULL;
}

/* Reads a line. READ_NOTHING: it is empty or a comment. */
static int read_line(struct line *l, char *text, const char *path, int number, struct err *e)
{
    unsigned char id[HASH];
    char wrong[TEXT_WRONG];
    char *save = NULL, *token = strtok_r(text, " \t\r", &save);
    if (!token || *token == '#') {
        return READ_NOTHING;
    }
    char *role = strtok_r(NULL, " \t\r", &save), *name = strtok_r(NULL, "\r", &save);
    if (strlen(token) < 16) {
        return err_set(
            e, ERR_INVALID,
            "cannot read token file '%s': the token in line %d has less than 16 characters", path,
            number);
    }
    if (!is_ascii(token)) {
        return err_set(e, ERR_INVALID,
                       "cannot read token file '%s': the token in line %d has a character that is "
                       "not ASCII, which no request can send",
                       path, number);
    }
    l->token.role = role ? auth_role_find(role) : ROLE_ADMIN;
    if (l->token.role == ROLE_NONE) {
        return err_set(
            e, ERR_INVALID,
            "cannot read token file '%s': the role in line %d is not viewer, operator, programs or "
            "admin",
            path, number);
    }
    if (name && read_name(l->token.name, name, wrong)) {
        return err_set(e, ERR_INVALID, "cannot read token file '%s': the name in line %d %s", path,
                       number, wrong);
    }
    if (!name || !l->token.name[0]) {
        snprintf(l->token.name, sizeof(l->token.name), "%s", auth_role_name(l->token.role));
    }
    hash_of(token, l->hash);
    SHA256(l->hash, HASH, id);
    hex_of(l->token.id, id, (TOKEN_ID - 1) / 2);
    return READ_TOKEN;
}

static int read_file(struct tokens *t, struct err *e)
{
    struct line lines[MAX_TOKENS];
    int n = 0, number = 0, got = 0;
    char *text = proc_read_file(t->file.path, 64 << 10, NULL, e);
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
                          t->file.path, MAX_TOKENS);
        } else if ((got = read_line(&lines[n], line, t->file.path, ++number, e)) == READ_TOKEN) {
            n++;
        }
    }
    free(text);
    if (got < 0) {
        return got;
    }
    if (n == 0) {
        return err_set(e, ERR_INVALID, "cannot read token file '%s': it has no token",
                       t->file.path);
    }
    memcpy(t->lines, lines, sizeof(lines[0]) * (size_t)n);
    t->n = n;
    return 0;
}

/* Reads the file again if it has changed; checks at most once a second. If it is gone or malformed,
 * the tokens stay as they were. */
static void read_again(struct tokens *t, bool at_once)
{
    struct err e;
    if (!path_watch_changed(&t->file, at_once)) {
        return;
    }
    if (read_file(t, &e) < 0) {
        log_warn("http", "the token file is not valid, the tokens stay as they were",
                 "reason=\"%s\"", e.message);
    } else {
        log_info("http", "the token file was read again", "tokens=%d", t->n);
    }
}

static int make_file(const char *path, struct err *e)
{
    char line[AUTH_TOKEN + 1];
    if (token_make(line, e) < 0) {
        return -(int)e->code;
    }
    line[AUTH_TOKEN - 1] = '\n';
    return proc_write_file(path, line, AUTH_TOKEN, 0600, e);
}

struct tokens *tokens_open(const char *file, struct err *e)
{
    struct tokens *t = calloc(1, sizeof(*t));
    if (!t) {
        err_set(e, ERR_MEMORY, "cannot read token file '%s': memory ran out", file);
        return NULL;
    }
    if (path_watch_init(&t->file, file) < 0 &&
        (make_file(file, e) < 0 || path_watch_init(&t->file, file) < 0)) {
        free(t);
        return NULL;
    }
    if (t->file.last.st_mode & 077) {
        log_warn("http", "the token file can be read by others", "path=%s", file);
    }
    if (read_file(t, e) < 0) {
        free(t);
        return NULL;
    }
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void tokens_close(struct tokens *t)
{
    if (t) {
        pthread_mutex_destroy(&t->lock);
        OPENSSL_cleanse(t, sizeof(*t));
        free(t);
    }
}

void tokens_read_again(struct tokens *t)
{
    pthread_mutex_lock(&t->lock);
    read_again(t, true);
    pthread_mutex_unlock(&t->lock);
}

bool tokens_find(struct tokens *t, const char *text, struct token *out)
{
    unsigned char hash[HASH];
    bool found = false;
    hash_of(text, hash);
    pthread_mutex_lock(&t->lock);
    read_again(t, false);
    for (int i = 0; i < t->n; i++) {
        if (CRYPTO_memcmp(hash, t->lines[i].hash, HASH) == 0) {
            *out = t->lines[i].token;
            found = true;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

bool tokens_still(struct tokens *t, const char *id, struct token *out)
{
    bool found = false;
    pthread_mutex_lock(&t->lock);
    read_again(t, false);
    for (int i = 0; i < t->n && !found; i++) {
        if (strcmp(id, t->lines[i].token.id) == 0) {
            *out = t->lines[i].token;
            found = true;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

int tokens_list(struct tokens *t, json_t *list, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    read_again(t, false);
    for (int i = 0; rc == 0 && i < t->n; i++) {
        const struct token *token = &t->lines[i].token;
        rc = json_array_append_new(
            list, json_pack("{s:s, s:o, s:s, s:s, s:n, s:n, s:n, s:b}", "id", token->id, "name",
                            jsonx_text(token->name), "role", auth_role_name(token->role), "source",
                            "file", "created", "expires", "by", "expired", 0));
    }
    pthread_mutex_unlock(&t->lock);
    return rc == 0 ? 0 : err_set(e, ERR_MEMORY, "cannot list the tokens: memory ran out");
}

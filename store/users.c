/* See users.h. */
#include "store/users.h"

#include <string.h>

#include "store/internal.h"

enum { RULES_BYTES = 1 << 20, RULES_MOST = 20000 };

void store_user_of_host(char out[STORE_USER], const char *host)
{
    snprintf(out, STORE_USER, "host.%.48s", host);
}

void store_user_of_ranks(char out[STORE_USER], const char *job, int attempt, const char *host)
{
    snprintf(out, STORE_USER, "ranks.%.16s.%d.%.48s", job, attempt, host);
}

void store_user_password(const struct sign_key *key, char out[SIGN_HEX])
{
    struct sign_key password;
    sign_derive(key, "store", "password", &password);
    sign_hex(&password, out);
}

/* Splits the words in place. */
static int split(char *text, const char **words, int room)
{
    int n = 0;
    for (char *at = strtok_r(text, " ", &text); at && n < room; at = strtok_r(NULL, " ", &text)) {
        words[n++] = at;
    }
    return n;
}

static int call_acl(struct store *s, int n, const char **words, const char *user, struct err *e)
{
    struct err why = {0};
    redisReply *r = store_command(s, n, words, NULL, &why);
    if (r) {
        freeReplyObject(r);
        return 0;
    }
    if (strstr(why.message, "NOPERM") || strstr(why.message, "unknown command")) {
        return err_set(e, ERR_UNSUPPORTED, "the coordinator may not make the user '%s' of Redis",
                       user);
    }
    if (e) {
        *e = why;
    }
    return store_failed(&why);
}

static int set_user(struct store *s, const char *user, char *rules, const struct sign_key *key,
                    struct err *e)
{
    enum { FIRST = 6 };
    char password[SIGN_HEX + 1] = ">";
    const char **words = calloc(FIRST + RULES_MOST, sizeof *words);
    if (!words || !rules) {
        free(words);
        return err_set(e, ERR_MEMORY, "cannot make a user of Redis: memory ran out");
    }
    store_user_password(key, password + 1);
    const char *first[FIRST] = {"ACL", "SETUSER", user, "reset", "on", password};
    memcpy(words, first, sizeof first);
    int n = FIRST + split(rules, words + FIRST, RULES_MOST);
    int rc = call_acl(s, n, words, user, e);
    free(words);
    return rc;
}

static int check_users(const struct store *s, struct err *e)
{
    return s->is_unix ? err_set(e, ERR_UNSUPPORTED,
                                "the store '%s' has no users: only Redis over TCP has", s->url)
                      : 0;
}

int store_user_add_host(struct store *s, const char *host, const char *const *nodes, int n,
                        const struct sign_key *key, struct err *e)
{
    char user[STORE_USER];
    struct buf rules;
    buf_init(&rules, RULES_BYTES);
    store_user_of_host(user, host);
    int rc = check_users(s, e);
    if (rc == 0 && (rc = key_rules_of_host(&rules, host, nodes, n, e)) == 0) {
        rc = set_user(s, user, rules.data, key, e);
    }
    buf_release(&rules);
    return rc;
}

int store_user_add_ranks(struct store *s, const char *user, const char *job, const int *ranks,
                         int n, const struct sign_key *key, struct err *e)
{
    struct buf rules;
    buf_init(&rules, RULES_BYTES);
    int rc = check_users(s, e);
    if (rc == 0 && (rc = key_rules_of_ranks(&rules, job, ranks, n, e)) == 0) {
        rc = set_user(s, user, rules.data, key, e);
    }
    buf_release(&rules);
    return rc;
}

int store_user_remove(struct store *s, const char *user, struct err *e)
{
    const char *words[] = {"ACL", "DELUSER", user};
    int rc = check_users(s, e);
    return rc == 0 ? call_acl(s, 3, words, user, e) : rc;
}

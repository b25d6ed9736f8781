/* Spells the keys of the store: see keys.h. A pattern is cut at its words in capitals, which names
 * replace. A name has only letters, digits, '-', '_' and '.', so none can reach another key.
 */
#include "store/redis/keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "store/internal.h"

enum { ID_BYTES = 32, NAME_BYTES = 128 };

const struct key_info store_keys[KEY_COUNT] = {
#define KEY(id, group, pattern, type, worker, agent, what, writers, readers, lives) \
    {pattern, type, what, writers, readers, lives, KEYS_##group, KEY_##worker, KEY_##agent},
#include "store/redis/keys.def"
};

/* The number of bytes before the next word in capitals. */
static size_t plain_length(const char *text)
{
    size_t n = 0;
    while (text[n] && !isupper((unsigned char)text[n])) {
        n++;
    }
    return n;
}

/* The text after the word in capitals (and digits) with which it begins. */
static const char *behind_word(const char *text)
{
    while (isupper((unsigned char)*text) || isdigit((unsigned char)*text)) {
        text++;
    }
    return text;
}

static bool plain_name(const char *name, size_t max)
{
    size_t n = name ? strlen(name) : 0;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i])) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

const char *key_text(enum store_key which)
{
    const char *pattern = store_keys[which].pattern;
    BUG_ON(pattern[plain_length(pattern)]);
    return pattern;
}

void key_prefix(char out[STORE_KEY], enum store_key which)
{
    const char *pattern = store_keys[which].pattern;
    snprintf(out, STORE_KEY, "%.*s", (int)plain_length(pattern), pattern);
}

int key_named(char key[STORE_KEY], enum store_key which, const char *name, struct err *e)
{
    const char *pattern = store_keys[which].pattern;
    if (!plain_name(name, NAME_BYTES)) {
        return err_set(
            e, ERR_INVALID,
            "'%.140s' cannot be a name: letters, digits, '-', '_' and '.' are allowed, up to %d",
            name ? name : "", (int)NAME_BYTES);
    }
    snprintf(key, STORE_KEY, "%.*s%s", (int)plain_length(pattern), pattern, name);
    return 0;
}

int key_of_job(char key[STORE_KEY], enum store_key which, const char *id, struct err *e)
{
    const struct key_info *info = &store_keys[which];
    BUG_ON(info->group != KEYS_JOB && info->group != KEYS_RANK);
    if (!plain_name(id, ID_BYTES)) {
        return store_no_job(id, e);
    }
    size_t n = plain_length(info->pattern);
    const char *rest = behind_word(info->pattern + n);
    snprintf(key, STORE_KEY, "%.*s%s%.*s", (int)n, info->pattern, id, (int)plain_length(rest),
             rest);
    return 0;
}

int key_of_rank(char key[STORE_KEY], enum store_key which, const char *id, int rank, struct err *e)
{
    BUG_ON(store_keys[which].group != KEYS_RANK);
    if (rank < 0 || rank >= STORE_RANKS) {
        return err_set(e, ERR_INVALID, "rank %d is not within 0 and %d", rank, STORE_RANKS - 1);
    }
    int rc = key_of_job(key, which, id, e);
    size_t n = rc < 0 ? 0 : strlen(key);
    return rc < 0 ? rc : (snprintf(key + n, STORE_KEY - n, "%d", rank), 0);
}

/* ---- users ----------------------------------------------------------------------------------- */

void key_glob(char out[STORE_KEY], enum store_key which)
{
    const char *at = store_keys[which].pattern;
    size_t n = 0;
    while (*at && n + 2 < STORE_KEY) {
        bool word = isupper((unsigned char)*at);
        out[n++] = word ? '*' : *at;
        at = word ? behind_word(at) : at + 1;
    }
    out[n] = '\0';
}

static enum key_may right_of(int which, enum key_user user)
{
    bool launches = which == KEY_MAIL || which == KEY_LEASE;
    return user == KEY_KEEPER && launches ? KEY_WRITE
           : user == KEY_AGENT            ? store_keys[which].agent
                                          : store_keys[which].worker;
}

/* Has an earlier line, which ends in a name, given at least this right to all of these keys? */
static bool is_covered(int which, enum key_user user)
{
    char mine[STORE_KEY], other[STORE_KEY];
    key_glob(mine, (enum store_key)which);
    for (int k = 0; k < which; k++) {
        key_glob(other, (enum store_key)k);
        size_t n = strlen(other);
        if (right_of(k, user) >= right_of(which, user) && other[n - 1] == '*' &&
            !strncmp(mine, other, n - 1)) {
            return true;
        }
    }
    return false;
}

void key_rights(struct buf *out, enum key_user user)
{
    const char *between = "";
    for (int k = 0; k < KEY_COUNT; k++) {
        char glob[STORE_KEY];
        enum key_may right = right_of(k, user);
        if (right == KEY_NONE || is_covered(k, user)) {
            continue;
        }
        key_glob(glob, (enum store_key)k);
        buf_addf(out, "%s%s~%s", between, right == KEY_READ ? "%R" : "", glob);
        between = " ";
    }
}

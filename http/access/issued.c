/* Tokens that were issued over the API; see issued.h. A change is made on a copy. The copy is
 * written to the disk first, and only then replaces the table in which tokens are looked up. So no
 * look-up waits for a disk.
 */
#include "http/access/issued.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text/hex.h"
#include "common/json/jsonx.h"
#include "common/process/proc.h"

enum { HASH = SHA256_DIGEST_LENGTH, FILE_BYTES = 4 << 20 };
static const int64_t kept_ms = (int64_t)ISSUED_KEPT_DAYS * 86400 * 1000;

struct one {
    unsigned char hash[HASH];
    struct token token;
    int64_t created, ends; /* ms since 1970; ends 0: never */
    char by[AUTH_NAME];
};

struct table {
    int n;
    struct one items[ISSUED_MOST];
};

struct issued {
    char path[512];
    pthread_mutex_t changing; /* held while a thread makes the next table and writes it */
    pthread_mutex_t lock;     /* of `now` */
    struct table *now;        /* owned; never changed, only replaced */
};

/* ---- documents ------------------------------------------------------------------------------- */

static json_t *time_or_null(int64_t ms)
{
    char text[32];
    return ms ? json_string(clock_format(text, ms)) : json_null();
}

static json_t *document(const struct one *t)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:b}", "id", t->token.id, "name",
                     t->token.name, "role", auth_role_name(t->token.role), "source", "issued",
                     "created", time_or_null(t->created), "expires", time_or_null(t->ends), "by",
                     t->by, "expired", t->ends && t->ends <= clock_wall_ms());
}

/* A line of the file. */
static json_t *record(const struct one *t)
{
    char hash[2 * HASH + 1];
    hex_of(hash, t->hash, HASH);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "sha256", hash, "name", t->token.name,
                     "role", auth_role_name(t->token.role), "created", (json_int_t)t->created,
                     "ends", (json_int_t)t->ends, "by", t->by);
}

static bool read_hash(const char *hex, unsigned char out[HASH])
{
    for (int i = 0; i < HASH; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        out[i] = (unsigned char)byte;
    }
    return true;
}

static void name_by_hash(struct one *t)
{
    unsigned char id[HASH];
    SHA256(t->hash, HASH, id);
    hex_of(t->token.id, id, (TOKEN_ID - 1) / 2);
}

static bool read_record(const json_t *j, struct one *t)
{
    const char *hash = jsonx_string_at(j, "sha256"), *name = jsonx_string_at(j, "name");
    memset(t, 0, sizeof(*t));
    t->token.role = auth_role_find(jsonx_string_at(j, "role"));
    if (strlen(hash) != (size_t)2 * HASH || !read_hash(hash, t->hash) || !name[0] ||
        t->token.role == ROLE_NONE) {
        return false;
    }
    snprintf(t->token.name, sizeof(t->token.name), "%s", name);
    snprintf(t->by, sizeof(t->by), "%s", jsonx_string_at(j, "by"));
    t->created = json_integer_value(json_object_get(j, "created"));
    t->ends = json_integer_value(json_object_get(j, "ends"));
    name_by_hash(t);
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int write_table(const struct issued *t, const struct table *table, struct err *e)
{
    json_t *list = json_array();
    size_t n = 0;
    for (int i = 0; i < table->n; i++) {
        json_array_append_new(list, record(&table->items[i]));
    }
    json_t *all = json_pack("{s:o}", "tokens", list);
    char *text = jsonx_dump(all, true, &n);
    json_decref(all);
    int rc = text ? proc_write_file(t->path, text, n, 0600, e)
                  : err_set(e, ERR_MEMORY, "cannot keep the tokens: memory ran out");
    free(text);
    return rc;
}

static int read_table(const struct issued *t, struct table *table, struct err *e)
{
    size_t i;
    json_t *one;
    if (access(t->path, F_OK) != 0) {
        return 0;
    }
    json_t *all = jsonx_load(t->path, FILE_BYTES, e);
    if (!all) {
        return -(int)e->code;
    }
    int rc = 0;
    json_array_foreach(json_object_get(all, "tokens"), i, one) {
        if (rc == 0 && (table->n == ISSUED_MOST || !read_record(one, &table->items[table->n++]))) {
            rc = err_set(e, ERR_DATA, "cannot read the issued tokens in '%s': entry %zu is damaged",
                         t->path, i);
        }
    }
    json_decref(all);
    return rc;
}

struct issued *issued_open(const char *file, struct err *e)
{
    struct issued *t = calloc(1, sizeof(*t));
    struct table *table = calloc(1, sizeof(*table));
    if (!t || !table) {
        err_set(e, ERR_MEMORY, "cannot read the issued tokens: memory ran out");
        goto fail;
    }
    snprintf(t->path, sizeof(t->path), "%s", file);
    if (read_table(t, table, e) < 0) {
        goto fail;
    }
    t->now = table;
    pthread_mutex_init(&t->changing, NULL);
    pthread_mutex_init(&t->lock, NULL);
    return t;
fail:
    free(table);
    free(t);
    return NULL;
}

void issued_close(struct issued *t)
{
    if (t) {
        pthread_mutex_destroy(&t->changing);
        pthread_mutex_destroy(&t->lock);
        OPENSSL_cleanse(t->now, sizeof(*t->now));
        free(t->now);
        free(t);
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A copy of the table, without tokens that ended long ago. `changing` is held. */
static struct table *next_table(const struct issued *t, struct err *e)
{
    struct table *next = calloc(1, sizeof(*next));
    int64_t now = clock_wall_ms();
    if (!next) {
        err_set(e, ERR_MEMORY, "cannot change the tokens: memory ran out");
        return NULL;
    }
    for (int i = 0; i < t->now->n; i++) {
        const struct one *old = &t->now->items[i];
        if (!old->ends || old->ends + kept_ms > now) {
            next->items[next->n++] = *old;
        }
    }
    return next;
}

/* Writes `next` (taken) and puts it into place. `changing` is held. */
static int replace(struct issued *t, struct table *next, struct err *e)
{
    int rc = write_table(t, next, e);
    if (rc >= 0) {
        pthread_mutex_lock(&t->lock);
        struct table *old = t->now;
        t->now = next;
        pthread_mutex_unlock(&t->lock);
        next = old;
    }
    OPENSSL_cleanse(next, sizeof(*next));
    free(next);
    return rc;
}

static int add(struct issued *t, const struct one *fresh, struct err *e)
{
    struct table *next = next_table(t, e);
    if (!next) {
        return -(int)e->code;
    }
    if (next->n == ISSUED_MOST) {
        free(next);
        err_set(e, ERR_CONFLICT, "there are %d tokens already", (int)ISSUED_MOST);
        return err_hint(e, "revoke unused tokens: `evenstep token list`");
    }
    next->items[next->n++] = *fresh;
    return replace(t, next, e);
}

json_t *issued_make(struct issued *t, const struct issued_wish *wish, char text[AUTH_TOKEN],
                    struct err *e)
{
    struct one fresh = {.token.role = wish->role, .created = clock_wall_ms()};
    if (token_make(text, e) < 0) {
        return NULL;
    }
    snprintf(fresh.token.name, sizeof(fresh.token.name), "%s", wish->name);
    snprintf(fresh.by, sizeof(fresh.by), "%s", wish->by);
    fresh.ends = wish->seconds ? fresh.created + 1000 * wish->seconds : 0;
    SHA256((const unsigned char *)text, strlen(text), fresh.hash);
    name_by_hash(&fresh);
    pthread_mutex_lock(&t->changing);
    int rc = add(t, &fresh, e);
    pthread_mutex_unlock(&t->changing);
    return rc < 0 ? NULL : document(&fresh);
}

int issued_revoke(struct issued *t, const char *id, struct err *e)
{
    int at = -1, rc;
    pthread_mutex_lock(&t->changing);
    struct table *next = next_table(t, e);
    for (int i = 0; next && i < next->n; i++) {
        at = strcmp(next->items[i].token.id, id) == 0 ? i : at;
    }
    if (at >= 0) {
        next->n--;
        memmove(&next->items[at], &next->items[at + 1],
                sizeof(next->items[0]) * (size_t)(next->n - at));
        rc = replace(t, next, e);
    } else {
        rc = next ? err_set(e, ERR_NOT_FOUND, "there is no token '%.60s'", id) : -(int)e->code;
        free(next);
    }
    pthread_mutex_unlock(&t->changing);
    return rc;
}

/* ---- look-ups -------------------------------------------------------------------------------- */

int issued_list(struct issued *t, json_t *list, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; rc == 0 && i < t->now->n; i++) {
        rc = json_array_append_new(list, document(&t->now->items[i]));
    }
    pthread_mutex_unlock(&t->lock);
    return rc == 0 ? 0 : err_set(e, ERR_MEMORY, "cannot list the tokens: memory ran out");
}

static enum issued_found state_of(const struct one *t, struct token *out)
{
    if (t->ends && t->ends <= clock_wall_ms()) {
        return ISSUED_ENDED;
    }
    *out = t->token;
    return ISSUED_GOOD;
}

enum issued_found issued_find(struct issued *t, const char *text, struct token *out)
{
    unsigned char hash[HASH];
    enum issued_found found = ISSUED_UNKNOWN;
    SHA256((const unsigned char *)text, strlen(text), hash);
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->now->n; i++) {
        if (CRYPTO_memcmp(hash, t->now->items[i].hash, HASH) == 0) {
            found = state_of(&t->now->items[i], out);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

enum issued_found issued_still(struct issued *t, const char *id, struct token *out)
{
    enum issued_found found = ISSUED_UNKNOWN;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->now->n && found == ISSUED_UNKNOWN; i++) {
        if (strcmp(id, t->now->items[i].token.id) == 0) {
            found = state_of(&t->now->items[i], out);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

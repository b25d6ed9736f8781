/* Runs scripts of the store (store/lua): by the hash of their text, with the fence where a
 * coordinator runs them, or as functions of Redis (functions.c). */
#include "store/internal.h"
#include "store/lua.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/text/hex.h"

/* ---- names ----------------------------------------------------------------------------------- */

static void hex_digest(const EVP_MD *kind, const void *bytes, size_t n, char *out)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    BUG_ON(!EVP_Digest(bytes, n, md, &len, kind, NULL));
    hex_of(out, md, len);
}

void store_hex_sha256(const void *bytes, size_t n, char out[65])
{
    hex_digest(EVP_sha256(), bytes, n, out);
}

static void name_script(struct script *script)
{
    char digest[65];
    size_t n = strlen(script->text);
    hex_digest(script->by_name ? EVP_sha256() : EVP_sha1(), script->text, n, digest);
    snprintf(script->name, sizeof script->name, "%s%.40s", script->by_name ? "es_" : "", digest);
}

const char *store_script_name(struct script *script)
{
    if (!atomic_load_explicit(&script->named, memory_order_acquire)) {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&lock);
        if (!script->named) { /* else another thread was first, and others may be reading the
                                 name */
            name_script(script);
            atomic_store_explicit(&script->named, true, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    return script->name;
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* The script with LUA_FENCE before it (fence.c). */
static struct script *fence_script(struct script *plain)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!plain->fenced) {
        size_t n = strlen(LUA_FENCE) + strlen(plain->text) + 1;
        struct script *both = calloc(1, sizeof *both);
        char *text = malloc(n);
        if (both && text) {
            snprintf(text, n, "%s%s", LUA_FENCE, plain->text);
            both->text = text;
            plain->fenced = both;
        } else {
            free(both);
            free(text);
        }
    }
    pthread_mutex_unlock(&lock);
    return plain->fenced;
}

int store_function_load(struct store *s, struct script *script, struct err *e)
{
    const char *name = store_script_name(script);
    struct err why = {0};
    struct buf text;
    buf_init(&text, strlen(script->text) + 512);
    buf_addf(&text,
             "#!lua name=%s\nlocal function body(KEYS, ARGV)\n%s\nend\n"
             "redis.register_function('%s', body)\n",
             name, script->text, name);
    const char *argv[] = {"FUNCTION", "LOAD", text.data};
    redisReply *r = text.data ? store_command(s, 3, argv, NULL, &why) : NULL;
    buf_release(&text);
    if (r || strstr(why.message, "already exists")) {
        freeReplyObject(r);
        return 0;
    }
    if (strstr(why.message, "unknown command")) {
        return err_set(e, ERR_UNSUPPORTED, "the store at '%s' is older than Redis 7.0", s->url);
    }
    if (strstr(why.message, "NOPERM")) {
        err_set(e, ERR_UNAVAILABLE, "the store at '%s' does not have our functions yet", s->url);
        return err_hint(e, "a coordinator of this version loads them when it starts");
    }
    return err_set(e, why.code ? why.code : ERR_MEMORY, "cannot load a function: %s", why.message);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The words of a call: EVALSHA, the script's hash, the number of keys, keys, arguments. With the
 * fence there are one more key, the lease, and one more argument, the token. */
struct call {
    const char **argv;
    size_t *lens;
    int argc;
};

static void call_add(struct call *c, const char *text, size_t n)
{
    c->argv[c->argc] = text;
    c->lens[c->argc++] = n;
}

static redisReply *run_script(struct store *s, struct call *c, struct script *script, struct err *e)
{
    redisReply *r = store_raw(s, c->argc, c->argv, c->lens, e);
    if (r && r->type == REDIS_REPLY_ERROR && !strncmp(r->str, "NOSCRIPT", 8)) {
        freeReplyObject(r);
        c->argv[0] = "EVAL";
        c->lens[0] = 4;
        c->argv[1] = script->text;
        c->lens[1] = strlen(script->text);
        r = store_raw(s, c->argc, c->argv, c->lens, e);
    } else if (r && r->type == REDIS_REPLY_ERROR && strstr(r->str, "Function not found")) {
        freeReplyObject(r);
        if (store_function_load(s, script, e) < 0) {
            return NULL;
        }
        r = store_raw(s, c->argc, c->argv, c->lens, e);
    }
    return store_check(s, r, e);
}

redisReply *store_script(struct store *s, struct script *script, int nkeys, const char **keys,
                         int nargs, const char **args, const size_t *lens, struct err *e)
{
    const struct store_fence *fence = s->fence;
    size_t most = (size_t)(5 + nkeys + nargs);
    struct call c = {calloc(most, sizeof *c.argv), calloc(most, sizeof *c.lens), 0};
    redisReply *r = NULL;
    char count[16], token[24];
    const char *how, *name;
    script = fence ? fence_script(script) : script;
    if (!c.argv || !c.lens || !script) {
        err_set(e, ERR_MEMORY, "cannot run a script in the store: memory ran out");
        goto out;
    }
    snprintf(count, sizeof count, "%d", nkeys + (fence ? 1 : 0));
    how = script->by_name ? "FCALL" : "EVALSHA"; /* a function is never fenced */
    name = store_script_name(script);
    call_add(&c, how, strlen(how));
    call_add(&c, name, strlen(name));
    call_add(&c, count, strlen(count));
    for (int i = 0; i < nkeys; i++) {
        call_add(&c, keys[i], strlen(keys[i]));
    }
    if (fence) {
        call_add(&c, key_text(KEY_LEADER), strlen(key_text(KEY_LEADER)));
    }
    for (int i = 0; i < nargs; i++) {
        call_add(&c, args[i], lens ? lens[i] : strlen(args[i]));
    }
    if (fence) {
        snprintf(token, sizeof token, "%lld", (long long)atomic_load(&fence->token));
        call_add(&c, token, strlen(token));
    }
    r = run_script(s, &c, script, e);
out:
    free(c.argv);
    free(c.lens);
    return r;
}

/* What users of Redis other than the coordinator's need.
 *
 * Scripts that workers, the keeper and agents call are functions of Redis, called by name, so that
 * their users need no right to run a script of their own, which could loop for ever and stop the
 * store.
 *
 *   coordinator ─ FUNCTION LOAD ─► store ◄─ FCALL es_DIGEST ─ worker, keeper, agent
 *
 * Each is a library of one function, named by the digest of its text: a process of another version
 * calls other functions, and none takes another's place. The coordinator loads them when it has
 * connected; whoever else may load functions (without users of Redis everybody) does so when one is
 * missing. Redis keeps them across its restarts.
 */
#include "store/internal.h"

#include <stdio.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/machine/host.h"

static struct script *const functions[] = {
    &report_script,   &fact_script,        &node_put_script, &node_gpu_script,  &node_remove_script,
    &host_put_script, &host_remove_script, &mail_put_script, &node_load_script,
};

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

int store_functions_load(struct store *s, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < sizeof functions / sizeof *functions; i++) {
        rc = store_function_load(s, functions[i], e);
    }
    return rc;
}

/* ---- the store as another user --------------------------------------------------------------- */

int store_url_as(const char *url, const char *user, char out[512], struct err *e)
{
    const char *at = host_of_redis(url);
    if (!at) {
        return err_set(e, ERR_INVALID, "'%.60s': only a store at redis://HOST:PORT has users",
                       user);
    }
    const char *sign = memchr(at, '@', strcspn(at, "/?"));
    snprintf(out, 512, "%.*s%.60s@%.440s", (int)(at - url), url, user, sign ? sign + 1 : at);
    return 0;
}

/* What users of Redis other than the coordinator's need.
 *
 * Scripts that workers, the keeper and agents call are functions of Redis, called by name, so that
 * their users need no right to run a script of their own, which could loop for ever and stop the
 * store.
 *
 *   coordinator ─ FUNCTION LOAD ─► store ◄─ FCALL es_DIGEST ─ worker, keeper, agent
 *
 * Each is a library of one function, named by the digest of its text. A process of another version
 * calls other functions, so none replaces another. The coordinator loads them when it has
 * connected. Other processes load a missing one if they may; without users of Redis all may. Redis
 * keeps functions across its restarts.
 */
#include "store/internal.h"

#include <stdio.h>
#include <string.h>

#include "common/machine/host.h"

static struct script *const functions[] = {
    &report_script,   &fact_script,        &node_put_script, &node_gpu_script,  &node_remove_script,
    &host_put_script, &host_remove_script, &mail_put_script, &node_load_script,
};

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

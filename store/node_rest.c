/* Nodes that rest. After two attempts in a row have failed through a node, it gets no job for a
 * while, each time twice as long. So a node with a broken library or clock does not use up every
 * job's restarts. The next attempt on it is the probe: if that ends well, the failures are
 * forgotten. The node's hash has `failures`, `failure` (the last one's reason) and `rest_until`;
 * nodes.c computes the state from these.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>

enum { REST_LEAST_MS = 15000, REST_MOST_MS = 1800000 };

static struct script failed_script = {.text = LUA_CLOCK LUA_NODE_EVENT LUA_NODE_FAILED};
static struct script well_script = {.text = LUA_NODE_EVENT LUA_NODE_WELL};

int store_node_failed(struct store *s, const char *name, const char *reason, double *rest,
                      struct err *e)
{
    char key[STORE_KEY], least[16], most[16];
    int64_t ms = 0;
    int rc = key_named(key, KEY_NODE, name, e);
    *rest = 0;
    if (rc < 0) {
        return rc;
    }
    snprintf(least, sizeof least, "%d", (int)REST_LEAST_MS);
    snprintf(most, sizeof most, "%d", (int)REST_MOST_MS);
    const char *keys[] = {key, key_text(KEY_EVENTS)},
               *args[] = {name, STORE_EVENTS, reason, least, most};
    redisReply *r = store_script(s, &failed_script, 2, keys, 5, args, NULL, e);
    if (!r) {
        return store_failed(e);
    }
    rc = r->type == REDIS_REPLY_NIL ? err_set(e, ERR_NOT_FOUND, "there is no node '%.128s'", name)
                                    : reply_int(r, &ms, e);
    freeReplyObject(r);
    *rest = (double)ms / 1000;
    return rc < 0 ? rc : 0;
}

int store_node_well(struct store *s, const char *name, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_named(key, KEY_NODE, name, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {key, key_text(KEY_EVENTS)}, *args[] = {name, STORE_EVENTS};
    return store_done(store_script(s, &well_script, 2, keys, 2, args, NULL, e), e);
}

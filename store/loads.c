/* See loads.h. */
#include "store/loads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "job/documents/hosts/load.h"
#include "store/internal.h"
#include "store/lua.h"

struct loads {
    struct load_meter meter;
    struct load now;
    struct load_means *nodes;   /* owned */
    struct load_mean_of *ready; /* owned; means that are complete and not sent yet */
    int n_ready, most_ready;
    bool refused;
};

static int load_key(char key[STORE_KEY], const char *node, int tier, struct err *e)
{
    int rc = key_named(key, KEY_LOAD, node, e);
    size_t n = rc < 0 ? 0 : strlen(key);
    if (rc >= 0) {
        snprintf(key + n, STORE_KEY - n, ":%d", load_tiers[tier].seconds);
    }
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct loads *loads_new(int nodes)
{
    struct loads *l = calloc(1, sizeof *l);
    BUG_ON(!l);
    l->nodes = calloc((size_t)nodes + 1, sizeof *l->nodes);
    l->most_ready = nodes * LOAD_TIERS;
    l->ready = calloc((size_t)l->most_ready + 1, sizeof *l->ready);
    BUG_ON(!l->nodes || !l->ready);
    load_read(&l->meter, &l->now);
    return l;
}

void loads_free(struct loads *l)
{
    if (l) {
        free(l->nodes);
        free(l->ready);
    }
    free(l);
}

void loads_read(struct loads *l)
{
    l->n_ready = 0; /* drops what a failed heartbeat left: the store would give it a later time */
    load_read(&l->meter, &l->now);
}

struct script node_load_script = {.text = LUA_CLOCK LUA_NODE_LOAD, .by_name = true};

struct load_texts {
    char key[STORE_KEY], load[LOAD_TEXT], kept[16], seconds[16];
};

static int print_mean(const struct load_mean_of *mean, struct load_texts *out, struct err *e)
{
    const struct load_tier *t = &load_tiers[mean->tier];
    load_print(&mean->load, out->load);
    snprintf(out->kept, sizeof out->kept, "%d", t->kept);
    snprintf(out->seconds, sizeof out->seconds, "%d", t->kept * t->seconds);
    return load_key(out->key, mean->node, mean->tier, e);
}

int store_loads_put(struct store *s, const struct load_mean_of *means, int n, struct err *e)
{
    struct load_texts *texts = calloc((size_t)n + 1, sizeof *texts);
    const char **keys = calloc((size_t)n + 1, sizeof *keys),
               **args = calloc(3 * (size_t)n + 1, sizeof *args);
    int rc = texts && keys && args
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot store how busy nodes are: memory ran out");
    for (int i = 0; i < n && rc >= 0; i++) {
        rc = print_mean(&means[i], &texts[i], e);
        keys[i] = texts[i].key;
        args[3 * i] = texts[i].load;
        args[3 * i + 1] = texts[i].kept;
        args[3 * i + 2] = texts[i].seconds;
    }
    if (rc >= 0) {
        rc = store_done(store_script(s, &node_load_script, n, keys, 3 * n, args, NULL, e), e);
    }
    free(texts);
    free(keys);
    free(args);
    return rc;
}

void loads_take(struct loads *l, int i, const char *node, const json_t *gpu)
{
    struct load now = l->now, mean;
    load_take_gpu(&now, gpu);
    for (int tier = 0; tier < LOAD_TIERS; tier++) {
        if (load_mean_add(&l->nodes[i], tier, &now, &mean) && l->n_ready < l->most_ready) {
            l->ready[l->n_ready++] = (struct load_mean_of){node, tier, mean};
        }
    }
}

void loads_send(struct loads *l, struct store *s)
{
    struct err why = {0};
    char quoted[600];
    if (l->n_ready == 0) {
        return;
    }
    int rc = store_loads_put(s, l->ready, l->n_ready, &why);
    l->n_ready = 0;
    if (rc < 0 && !l->refused) {
        log_warn("nodes", "the store does not take how busy nodes are", "why=%s",
                 log_quote(quoted, sizeof quoted, why.message));
    }
    l->refused = rc < 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the loads of a tier that end after `since` and begin before *until, and sets *until to the
 * beginning of the first one. A load that reaches beyond *until is cut there. */
static int read_tier(struct store *s, const char *node, int tier, double since, double *until,
                     json_t *before, struct err *e)
{
    char key[STORE_KEY];
    int rc = load_key(key, node, tier, e);
    redisReply *r = rc < 0 ? NULL : store_commandf(s, e, "LRANGE %s 0 -1", key);
    if (!r) {
        return store_failed(e);
    }
    double first = *until;
    for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++) {
        const redisReply *one = r->element[i];
        struct load l;
        double ms;
        if (one->type != REDIS_REPLY_STRING || !load_parse(&l, &ms, one->str)) {
            continue;
        }
        double begin = ms - 1000 * l.seconds, end = fmin(ms, *until);
        if (end > since && begin < end) {
            l.seconds = (end - begin) / 1000;
            load_lists_add(before, end, &l);
            first = fmin(first, begin);
        }
    }
    *until = first;
    freeReplyObject(r);
    return 0;
}

json_t *store_loads(struct store *s, const char *node, double since, struct err *e)
{
    json_t *tiers[LOAD_TIERS] = {NULL}, *out = load_lists(), *list;
    const char *name;
    double until = INFINITY;
    int rc = 0;
    for (int tier = 0; tier < LOAD_TIERS && rc >= 0; tier++) {
        tiers[tier] = load_lists();
        rc = read_tier(s, node, tier, 1000 * since, &until, tiers[tier], e);
    }
    for (int tier = LOAD_TIERS - 1; tier >= 0; tier--) { /* the oldest first */
        json_object_foreach(out, name, list) {
            json_array_extend(list, json_object_get(tiers[tier], name));
        }
        json_decref(tiers[tier]);
    }
    if (rc < 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

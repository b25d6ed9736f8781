/* Which nodes an attempt gets: see placement.h.
 *
 * A restart runs with fewer workers than the spec asks for only if too few nodes are alive;
 * otherwise it waits for busy nodes as any other job does. An elastic job takes what is free,
 * between its bounds.
 */
#include "coordinator/planning/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/planning/needs.h"
#include "job/node/device_kind.h"
#include "job/node/node.h"

/* "gpu=a100" matches a label, "gpu" a label's name or value, "node-3" a node. */
static bool matches(const json_t *node, const char *wanted)
{
    if (strcmp(node_name(node), wanted) == 0) {
        return true;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)node_labels(node), key, value) {
        const char *text = json_string_value(value);
        char pair[256];
        snprintf(pair, sizeof pair, "%s=%s", key, text ? text : "");
        if (strcmp(pair, wanted) == 0 || strcmp(key, wanted) == 0 ||
            (text && strcmp(text, wanted) == 0)) {
            return true;
        }
    }
    return false;
}

static bool fits(const json_t *node, const struct placement_ask *ask)
{
    return node_offers(node, ask->spec->precision[0] ? ask->spec->precision : "fp32") &&
           needs_answer(node, ask->manifest) != NEEDS_LACKING;
}

/* May the job run on this node, apart from its precision and its program's needs? */
static bool is_meant(const json_t *node, const struct placement_ask *ask)
{
    const struct jobspec *spec = ask->spec;
    if (ask->local_host && strcmp(node_host(node), ask->local_host) != 0 && !node_has_agent(node)) {
        return false;
    }
    for (int i = 0; i < spec->n_nodes; i++) {
        if (matches(node, spec->nodes[i])) {
            return true;
        }
    }
    return spec->n_nodes == 0;
}

static bool may_run(const json_t *node, const struct placement_ask *ask)
{
    return is_meant(node, ask) && fits(node, ask);
}

static bool is_alive(const json_t *node)
{
    const char *state = node_state(node);
    return strcmp(state, "ready") == 0 || strcmp(state, "busy") == 0;
}

static bool is_free(const json_t *node, const struct placement_ask *ask)
{
    if (names_has(ask->reserved, node_name(node))) {
        return false;
    }
    if (!ask->ignore_claims && needs_answer(node, ask->manifest) == NEEDS_ASKED) {
        return false;
    }
    if (ask->own && strcmp(node_user(node), ask->own) == 0) {
        return is_alive(node);
    }
    return ask->ignore_claims ? is_alive(node) : strcmp(node_state(node), "ready") == 0;
}

static void take(struct placed *out, const json_t *node)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", node_name(node));
    snprintf(out->host, sizeof out->host, "%s", node_host(node));
    snprintf(out->device, sizeof out->device, "%s", node_device(node));
    snprintf(out->address, sizeof out->address, "%s", node_address(node));
    out->agent = node_has_agent(node);
    out->slowdown = node_slowdown(node);
    out->threads = node_threads(node);
    out->memory_bytes = node_memory_bytes(node);
    out->doubtful = node_failures(node) > 1;
    out->speed = device_kind_speed(out->device, out->threads) / out->slowdown;
}

static int faster_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->doubtful != y->doubtful) {
        return x->doubtful ? 1 : -1;
    }
    return x->speed > y->speed ? -1 : x->speed < y->speed ? 1 : strcmp(x->name, y->name);
}

/* Counts the nodes that could ever be used, those alive, and those free. */
struct census {
    int known, alive, resting, asked, free_now;
};

static struct census count(const struct placement_ask *ask)
{
    struct census c = {0};
    size_t i;
    json_t *node;
    json_array_foreach(ask->nodes, i, node) {
        if (may_run(node, ask)) {
            c.known++;
            c.alive += is_alive(node);
            c.resting += strcmp(node_state(node), "resting") == 0;
            c.asked += needs_answer(node, ask->manifest) == NEEDS_ASKED;
            c.free_now += is_free(node, ask);
        }
    }
    return c;
}

int placement_known(const struct placement_ask *ask)
{
    return count(ask).known;
}

static void explain(struct placement *out, const struct placement_ask *ask, const struct census *c,
                    int wanted)
{
    char named[80 + NEEDS_TEXT], needs[NEEDS_TEXT], asks[40];
    bool any = strcmp(ask->spec->precision, "fp32") == 0 || !ask->spec->precision[0];
    snprintf(named, sizeof named, "%s%s%s%s", ask->spec->n_nodes ? " that the spec names" : "",
             any                  ? ""
             : ask->spec->n_nodes ? " and with precision "
                                  : " with precision ",
             any ? "" : ask->spec->precision, needs_list(ask->manifest, needs));
    snprintf(asks, sizeof asks, "it asks for %d worker%s", wanted, wanted == 1 ? "" : "s");
    if (c->known < wanted) {
        snprintf(out->waiting, sizeof out->waiting, "%s, and there %s %d node%s%s", asks,
                 c->known == 1 ? "is" : "are", c->known, c->known == 1 ? "" : "s", named);
    } else if (c->alive < wanted && c->known == 1) {
        snprintf(out->waiting, sizeof out->waiting,
                 "%s, and the node%s is lost, %sdraining or disabled", asks, named,
                 c->resting ? "resting, " : "");
    } else if (c->alive < wanted) {
        snprintf(out->waiting, sizeof out->waiting,
                 "%s, and %d of the %d nodes%s %s lost, %sdraining or disabled", asks,
                 c->known - c->alive, c->known, named, c->known - c->alive == 1 ? "is" : "are",
                 c->resting ? "resting, " : "");
    } else {
        snprintf(out->waiting, sizeof out->waiting, "%s, and %d node%s%s %s free%s", asks,
                 c->free_now, c->free_now == 1 ? "" : "s", named, c->free_now == 1 ? "is" : "are",
                 c->asked ? "; nodes are being asked which packages they have" : "");
    }
}

/* How many workers an elastic job gets: the free nodes, between its bounds. */
static int elastic_size(const struct placement_ask *ask, const struct census *c)
{
    int min = ask->spec->elastic.min, max = ask->spec->elastic.max;
    int most = ask->most > 0 && ask->most < max ? ask->most : max,
        size = c->free_now < most ? c->free_now : most;
    return size > min ? size : min;
}

/* How many workers the job would get if all nodes were free. A restart goes on with fewer if too
 * few nodes are alive. */
static int workers_wanted(const struct placement_ask *ask, const struct census *c)
{
    if (ask->spec->elastic.max > 0) {
        return elastic_size(ask, c);
    }
    int wanted = ask->spec->workers,
        least = ask->spec->min_workers > 0 ? ask->spec->min_workers : wanted;
    return ask->attempt > 1 && c->alive < wanted && c->alive >= least ? c->alive : wanted;
}

bool placement_find(struct placement *out, const struct placement_ask *ask)
{
    memset(out, 0, sizeof *out);
    struct census c = count(ask);
    int wanted = workers_wanted(ask, &c);
    if (c.free_now < wanted) {
        explain(out, ask, &c, wanted);
        return false;
    }
    out->nodes = calloc((size_t)c.free_now, sizeof *out->nodes);
    if (!out->nodes) {
        snprintf(out->waiting, sizeof out->waiting, "memory ran out");
        return false;
    }
    size_t i;
    json_t *node;
    json_array_foreach(ask->nodes, i, node) {
        if (may_run(node, ask) && is_free(node, ask)) {
            take(&out->nodes[out->count++], node);
        }
    }
    qsort(out->nodes, (size_t)out->count, sizeof *out->nodes, faster_first);
    out->count = wanted;
    return true;
}

void placement_release(struct placement *p)
{
    free(p->nodes);
    memset(p, 0, sizeof *p);
}

void placement_reserve(struct names *reserved, const struct placement_ask *ask)
{
    struct census c = count(ask);
    if (c.alive < workers_wanted(ask, &c)) {
        return; /* it waits for nodes that are not alive, so nodes that are need not stand idle */
    }
    size_t i;
    json_t *node;
    json_array_foreach(ask->nodes, i, node) {
        if (may_run(node, ask)) {
            names_add(reserved, node_name(node), 0);
        }
    }
}

const json_t *placement_lacking(const struct placement_ask *ask)
{
    const json_t *lacking = NULL;
    int have = 0;
    size_t i;
    json_t *node;
    json_array_foreach(ask->nodes, i, node) {
        have += may_run(node, ask);
        if (!lacking && is_meant(node, ask) && !fits(node, ask)) {
            lacking = node;
        }
    }
    return have < jobspec_least_workers(ask->spec) ? lacking : NULL;
}

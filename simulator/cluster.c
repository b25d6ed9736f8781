/* Cluster files: see cluster.h. */
#include "simulator/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const top_keys[] = {"seed", "nodes", "groups", "links", "group_links", "server"};
static const char *const node_keys[] = {"name", "count", "fixed_seconds", "seconds_per_sample", "jitter"};
static const char *const link_keys[] = {"latency_seconds", "bytes_per_second"};

enum { TOP_KEYS = 6, NODE_KEYS = 5, LINK_KEYS = 2 };

static void check_keys(const json_t *j, const char *pointer, const char *const *keys, int n, struct jsonx_problems *p)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)j, key, value) {
        bool known = false;
        for (int i = 0; i < n; i++) {
            known = known || strcmp(key, keys[i]) == 0;
        }
        if (!known) {
            char at[200];
            const char *near = jsonx_nearest(key, keys, n);
            jsonx_problem(p, jsonx_join(at, sizeof at, pointer, key), "there is no key '%.80s'%s%s%s", key, near ? "; did you mean '" : "",
                          near ? near : "", near ? "'?" : "");
        }
    }
}

static double number(const json_t *j, const char *pointer, const char *key, double fallback, double min, double max, struct jsonx_problems *p)
{
    const json_t *v = json_object_get(j, key);
    char at[200];
    if (!v) {
        return fallback;
    }
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= min) || !(x <= max)) {
        jsonx_problem(p, jsonx_join(at, sizeof at, pointer, key), "a number from %g to %g is wanted", min, max);
        return fallback;
    }
    return x;
}

static void add_node(struct cluster *c, const json_t *j, const char *pointer, struct jsonx_problems *p)
{
    char at[200];
    if (!json_is_object(j)) {
        jsonx_problem(p, pointer, "a node is an object with a name and times");
        return;
    }
    check_keys(j, pointer, node_keys, NODE_KEYS, p);
    struct virtual_node node = {.fixed_seconds = number(j, pointer, "fixed_seconds", 0, 0, 1e6, p),
                                .seconds_per_sample = number(j, pointer, "seconds_per_sample", 0, 0, 1e6, p),
                                .jitter = number(j, pointer, "jitter", 0, 0, 0.33, p)};
    const char *name = json_string_value(json_object_get(j, "name"));
    if (!name || !*name || strlen(name) > CLUSTER_NAME - 8) {
        jsonx_problem(p, jsonx_join(at, sizeof at, pointer, "name"), "a name of 1 to %d characters is wanted", CLUSTER_NAME - 8);
        name = "node";
    }
    if (!json_object_get(j, "fixed_seconds") && !json_object_get(j, "seconds_per_sample")) {
        jsonx_problem(p, pointer, "node '%s' has neither fixed_seconds nor seconds_per_sample", name);
    }
    const json_t *count = json_object_get(j, "count");
    double n = number(j, pointer, "count", 1, 1, 1e9, p);
    if (n + c->n_nodes > CLUSTER_NODES) {
        jsonx_problem(p, jsonx_join(at, sizeof at, pointer, "count"), "a cluster has at most %d nodes; this would make %.0f", CLUSTER_NODES,
                      n + c->n_nodes);
        return;
    }
    for (int i = 0; i < (int)n; i++) {
        if (count) {
            snprintf(node.name, sizeof node.name, "%.40s-%d", name, i + 1);
        } else {
            snprintf(node.name, sizeof node.name, "%s", name);
        }
        for (int k = 0; k < c->n_nodes; k++) {
            if (strcmp(c->nodes[k].name, node.name) == 0) {
                jsonx_problem(p, pointer, "there are two nodes '%s'", node.name);
                return;
            }
        }
        c->nodes[c->n_nodes++] = node;
    }
}

static void read_link(struct virtual_link *link, const json_t *j, const char *key, struct jsonx_problems *p)
{
    char at[200];
    const json_t *v = json_object_get(j, key);
    jsonx_join(at, sizeof at, "", key);
    if (!v) {
        return;
    }
    if (!json_is_object(v)) {
        jsonx_problem(p, at, "a link is an object with latency_seconds and bytes_per_second");
        return;
    }
    check_keys(v, at, link_keys, LINK_KEYS, p);
    link->latency_seconds = number(v, at, "latency_seconds", 0, 0, 1e4, p);
    if (json_object_get(v, "bytes_per_second")) {
        link->bytes_per_second = number(v, at, "bytes_per_second", 0, 1, 1e15, p);
    }
}

static int find_node(const struct cluster *c, const char *name)
{
    for (int i = 0; name && i < c->n_nodes; i++) {
        if (strcmp(c->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static void read_groups(struct cluster *c, const json_t *groups, struct jsonx_problems *p)
{
    bool in_group[CLUSTER_NODES] = {false};
    size_t g, m;
    json_t *group, *member;
    char at[200];
    if (!json_is_array(groups)) {
        jsonx_problem(p, "/groups", "an array of arrays of node names is wanted");
        return;
    }
    c->groups = true;
    json_array_foreach((json_t *)groups, g, group) {
        if (!json_is_array(group) || json_array_size(group) == 0) {
            jsonx_problem(p, jsonx_join_index(at, sizeof at, "/groups", g), "a group is an array of at least one node name");
        }
        json_array_foreach(group, m, member) {
            char where[200];
            jsonx_join_index(where, sizeof where, jsonx_join_index(at, sizeof at, "/groups", g), m);
            int i = find_node(c, json_string_value(member));
            if (i < 0) {
                jsonx_problem(p, where, "there is no node '%.80s'", json_is_string(member) ? json_string_value(member) : "?");
            } else if (in_group[i]) {
                jsonx_problem(p, where, "node '%s' is in two groups", c->nodes[i].name);
            } else {
                in_group[i] = true;
                c->nodes[i].group = (int)g;
            }
        }
    }
    for (int i = 0; i < c->n_nodes; i++) {
        if (!in_group[i]) {
            jsonx_problem(p, "/groups", "node '%s' is in no group", c->nodes[i].name);
        }
    }
}

int cluster_parse(struct cluster *c, const json_t *j, const char *pointer, struct jsonx_problems *problems)
{
    int before = problems->count + problems->dropped;
    memset(c, 0, sizeof *c);
    if (!json_is_object(j)) {
        jsonx_problem(problems, pointer, "a cluster is an object with nodes and links");
        return -ERR_INVALID;
    }
    check_keys(j, pointer, top_keys, TOP_KEYS, problems);
    c->seed = (uint64_t)number(j, pointer, "seed", 1, 0, 9007199254740992.0, problems);
    const json_t *nodes = json_object_get(j, "nodes");
    if (!json_is_array(nodes) || json_array_size(nodes) == 0) {
        jsonx_problem(problems, "/nodes", "an array of at least one node is wanted");
    }
    size_t i;
    json_t *node;
    json_array_foreach((json_t *)nodes, i, node) {
        char at[200];
        add_node(c, node, jsonx_join_index(at, sizeof at, "/nodes", i), problems);
    }
    read_link(&c->links, j, "links", problems);
    c->group_links = c->links;
    read_link(&c->group_links, j, "group_links", problems);
    read_link(&c->server, j, "server", problems);
    if (json_object_get(j, "groups")) {
        read_groups(c, json_object_get(j, "groups"), problems);
    }
    return problems->count + problems->dropped > before ? -ERR_INVALID : 0;
}

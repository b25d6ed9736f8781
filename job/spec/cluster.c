/* Virtual clusters out of JSON: see cluster.h. Keys are checked by the same rows as the spec's
 * (job/spec/fields.h), so that unknown keys, ranges and defaults behave alike. A missing link is
 * instant, but missing group links are like the other links. */
#include "job/spec/cluster.h"

#include <stdio.h>
#include <string.h>

#include "job/spec/fields.h"

const struct catalog_param cluster_node_params[] = {
    {"count", PARAM_INT, 0, 1, 1, CLUSTER_NODES, NULL, NULL,
     "nodes of this kind, NAME-1 and so on"},
    {"fixed_seconds", PARAM_REAL, 0, 0, 0, 1e6, NULL, NULL, "of a step, whatever the minibatch"},
    {"seconds_per_sample", PARAM_REAL, 0, 0, 0, 1e6, NULL, NULL, "of a step, per sample"},
    {"jitter", PARAM_REAL, 0, 0, 0, 0.33, NULL, NULL,
     "relative standard deviation of a step's time"},
    {.name = NULL},
};

const struct catalog_param cluster_link_params[] = {
    {"latency_seconds", PARAM_REAL, 0, 0, 0, 1e4, NULL, NULL, "of a message"},
    {"bytes_per_second", PARAM_REAL, 0, 0, 0, 1e15, NULL, NULL, "bandwidth; 0 is unlimited"},
    {.name = NULL},
};

const struct catalog_param cluster_seed_param = {
    "seed", PARAM_INT, 0, 1, 0, 9007199254740992.0, NULL, NULL, "of the jitter"};

static int find_node(const struct cluster *c, const char *name)
{
    for (int i = 0; name != NULL && i < c->n_nodes; i++) {
        if (strcmp(c->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static void add_nodes(struct cluster *c, struct fields *f, struct virtual_node node,
                      const char *name, int n, bool counted)
{
    if (n + c->n_nodes > CLUSTER_NODES) {
        fields_problem(f, "count", "a cluster has at most %d nodes; this would make %d",
                       CLUSTER_NODES, n + c->n_nodes);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (counted) {
            snprintf(node.name, sizeof node.name, "%.40s-%d", name, i + 1);
        } else {
            snprintf(node.name, sizeof node.name, "%.40s", name);
        }
        if (find_node(c, node.name) >= 0) {
            fields_problem(f, "name", "there are two nodes '%s'", node.name);
            return;
        }
        c->nodes[c->n_nodes++] = node;
    }
}

static void read_node(struct cluster *c, const json_t *j, const char *pointer,
                      struct jsonx_problems *problems)
{
    struct fields f;
    json_t *full = json_object();
    fields_open(&f, j, full, pointer, problems);
    const char *name = f.given ? fields_name(&f, "name", true, CLUSTER_NAME - 7) : NULL;
    fields_params(&f, cluster_node_params);
    fields_close(&f);
    if (f.given && !json_object_get(j, "fixed_seconds") &&
        !json_object_get(j, "seconds_per_sample")) {
        jsonx_problem(problems, pointer, "a node needs fixed_seconds or seconds_per_sample");
    }
    /* also after a mistake: a second node of this name is an error, and groups may name it */
    if (name != NULL && json_object_get(full, "count") != NULL) {
        struct virtual_node node = {.fixed_seconds = fields_real(full, "fixed_seconds"),
                                    .seconds_per_sample = fields_real(full, "seconds_per_sample"),
                                    .jitter = fields_real(full, "jitter")};
        add_nodes(c, &f, node, name, (int)fields_int(full, "count"),
                  json_object_get(j, "count") != NULL);
    }
    json_decref(full);
}

static void read_nodes(struct cluster *c, struct fields *f, struct jsonx_problems *problems)
{
    char at[FIELDS_POINTER], where[FIELDS_POINTER];
    const json_t *nodes = fields_need(f, "nodes");
    size_t i;
    json_t *node;
    if (nodes != NULL && (!json_is_array(nodes) || json_array_size(nodes) == 0)) {
        fields_problem(f, "nodes", "'nodes' must be an array of at least one node");
    }
    if (json_array_size(nodes) > CLUSTER_NODES) {
        fields_problem(f, "nodes", "a cluster has at most %d nodes, not %zu", CLUSTER_NODES,
                       json_array_size(nodes));
        return;
    }
    jsonx_join(at, sizeof at, f->pointer, "nodes");
    json_array_foreach((json_t *)nodes, i, node) {
        read_node(c, node, jsonx_join_index(where, sizeof where, at, i), problems);
    }
}

static void read_link(struct virtual_link *link, struct fields *f, const char *key)
{
    char at[FIELDS_POINTER];
    const json_t *v = fields_get(f, key);
    if (v == NULL) {
        return;
    }
    struct fields in;
    json_t *full = json_object();
    fields_open(&in, v, full, jsonx_join(at, sizeof at, f->pointer, key), f->problems);
    fields_params(&in, cluster_link_params);
    fields_close(&in);
    link->latency_seconds = fields_real(full, "latency_seconds");
    link->bytes_per_second = fields_real(full, "bytes_per_second");
    json_decref(full);
}

static void read_group(struct cluster *c, const json_t *group, int g, const char *at,
                       bool *in_group, struct jsonx_problems *problems)
{
    char where[FIELDS_POINTER];
    size_t m;
    json_t *member;
    if (!json_is_array(group) || json_array_size(group) == 0) {
        jsonx_problem(problems, at, "a group must be an array of at least one node name");
        return;
    }
    json_array_foreach((json_t *)group, m, member) {
        int i = find_node(c, json_string_value(member));
        jsonx_join_index(where, sizeof where, at, m);
        if (i < 0) {
            char shown[48];
            jsonx_problem(problems, where, "there is no node %s", fields_show(shown, member));
        } else if (in_group[i]) {
            jsonx_problem(problems, where, "node '%s' is in two groups", c->nodes[i].name);
        } else {
            in_group[i] = true;
            c->nodes[i].group = g;
        }
    }
}

static void read_groups(struct cluster *c, struct fields *f, struct jsonx_problems *problems)
{
    bool in_group[CLUSTER_NODES] = {false};
    char at[FIELDS_POINTER], where[FIELDS_POINTER];
    const json_t *groups = fields_get(f, "groups");
    size_t g;
    json_t *group;
    if (groups == NULL) {
        return;
    }
    if (!json_is_array(groups)) {
        fields_problem(f, "groups", "'groups' must be an array of arrays of node names");
        return;
    }
    c->groups = true;
    jsonx_join(at, sizeof at, f->pointer, "groups");
    json_array_foreach((json_t *)groups, g, group) {
        read_group(c, group, (int)g, jsonx_join_index(where, sizeof where, at, g), in_group,
                   problems);
    }
    for (int i = 0; i < c->n_nodes; i++) {
        if (!in_group[i]) {
            jsonx_problem(problems, at, "node '%s' is in no group", c->nodes[i].name);
        }
    }
}

int cluster_parse(struct cluster *c, const json_t *j, const char *pointer,
                  struct jsonx_problems *problems)
{
    int before = problems->count + problems->dropped;
    struct fields f;
    json_t *full = json_object();
    memset(c, 0, sizeof *c);
    fields_open(&f, j, full, pointer, problems);
    if (f.given != NULL) {
        fields_param(&f, &cluster_seed_param);
        c->seed = (uint64_t)fields_int(full, "seed");
        read_nodes(c, &f, problems);
        read_link(&c->links, &f, "links");
        c->group_links = c->links;
        read_link(&c->group_links, &f, "group_links");
        read_link(&c->server, &f, "server");
        read_groups(c, &f, problems);
        fields_close(&f);
    } else if (j == NULL) {
        jsonx_problem(problems, pointer, "a cluster must be an object with nodes and links");
    }
    json_decref(full);
    return problems->count + problems->dropped > before ? -ERR_INVALID : 0;
}

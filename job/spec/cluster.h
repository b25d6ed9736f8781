/* A virtual cluster (docs/virtual-cluster.md#the-cluster): nodes with a + k*b and jitter, links
 * with latency and bandwidth. It is in job/ because the spec's `cluster` is checked with the spec;
 * simulator/ runs it. */
#ifndef JOB_SPEC_CLUSTER_H
#define JOB_SPEC_CLUSTER_H

#include "common/json/jsonx.h"
#include "job/spec/catalog.h"

enum { CLUSTER_NODES = 1024, CLUSTER_NAME = 48 };

struct virtual_node {
    char name[CLUSTER_NAME];
    double fixed_seconds, seconds_per_sample, jitter;
    int group; /* of cluster.groups; 0 if there are none */
};
struct virtual_link { /* 0 latency and 0 bandwidth: instant */
    double latency_seconds, bytes_per_second;
};
struct cluster {
    uint64_t seed;
    struct virtual_node nodes[CLUSTER_NODES];
    int n_nodes;
    bool groups; /* were given */
    struct virtual_link links,
        group_links;            /* group_links: between nodes of one group; if not given, like
                                   links */
    struct virtual_link server; /* the server's own link, shared by all its clients */
};

/* Every mistake is reported with its pointer beneath `pointer`; 0 or negative. A node with "count"
 * N gives NAME-1 … NAME-N. About 80 KB: not for small stacks. */
int cluster_parse(struct cluster *c, const json_t *j, const char *pointer,
                  struct jsonx_problems *problems);

/* The parameters of a node, of a link and of the whole cluster, for job/spec/schema.c; a name of
 * NULL ends a list. */
extern const struct catalog_param cluster_node_params[], cluster_link_params[], cluster_seed_param;

#endif

/* A virtual cluster's file (evenstep-simulate --cluster, and a job's `cluster`). */
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "job/spec/cluster.h"

static void check_link(const struct virtual_link *l)
{
    BUG_ON(!(l->latency_seconds >= 0) || !(l->bytes_per_second >= 0) ||
           !isfinite(l->latency_seconds));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cluster c;
    struct jsonx_problems problems = {0};
    json_t *j = fuzz_json(data, size);
    if (!j) {
        return 0;
    }
    memset(&c, 0, sizeof c);
    int rc = cluster_parse(&c, j, "", &problems);
    BUG_ON((rc < 0) != (problems.count > 0));
    if (rc >= 0) {
        BUG_ON(c.n_nodes < 1 || c.n_nodes > CLUSTER_NODES);
        for (int i = 0; i < c.n_nodes; i++) {
            const struct virtual_node *n = &c.nodes[i];
            BUG_ON(!n->name[0] || !(n->fixed_seconds >= 0) || !(n->seconds_per_sample >= 0) ||
                   !(n->jitter >= 0));
            BUG_ON(!isfinite(n->fixed_seconds) || !isfinite(n->seconds_per_sample) ||
                   !isfinite(n->jitter));
        }
        check_link(&c.links);
        check_link(&c.group_links);
        check_link(&c.server);
    }
    jsonx_problems_release(&problems);
    json_decref(j);
    return 0;
}

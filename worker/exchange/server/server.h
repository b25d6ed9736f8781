/* The server of server strategies (server.c): rank W runs it until the job ends. What makes one
 * strategy differ from the next is its policy: how many gradients make an update, who waits for
 * what, and with which coefficients the rule is applied. */
#ifndef WORKER_EXCHANGE_SERVER_H
#define WORKER_EXCHANGE_SERVER_H

#include "worker/exchange/strategies.h"

struct server_policy {
    /* Gradients that make one update together; NULL: each makes its own. */
    int (*group)(const struct rank_env *env);
    /* A worker gets new weights only after the update that contains its gradient; NULL: right after
     * its push. */
    bool (*blocking)(const struct rank_env *env);
    /* Gradients that a worker may be ahead of the slowest before it has to wait; NULL: any. */
    int (*lead)(const struct rank_env *env);
    /* The rule's own parameters p0, p1, p2 for a gradient of staleness a->tau; NULL: it has none.
     */
    void (*parameters)(const struct rank_env *env, struct rule_args *a);
    /* What the rule keeps at the server beside the weights. */
    bool (*needs_velocity)(const struct rank_env *env); /* NULL: where there is momentum */
    bool (*needs_mean_square)(const struct rank_env *env);
    bool compensates; /* the rule bends the gradient: how much is told with each */
};

/* Returns as strategy_ops.serve does: 0 ended, 1 paused, 2 stopped, negative. */
int server_serve(const struct server_policy *policy, struct rank_env *env,
                 const struct run_state *from, struct err *e);

#endif

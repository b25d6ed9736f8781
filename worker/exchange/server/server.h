/* The server of server strategies (server.c): rank W runs it until the job ends. What makes one
 * strategy differ from the next is its policy: how many gradients make an update, who waits for
 * what, and with which coefficients the rule is applied. */
#ifndef WORKER_EXCHANGE_SERVER_H
#define WORKER_EXCHANGE_SERVER_H

#include "worker/exchange/agenda.h"
#include "worker/exchange/footprint.h"
#include "worker/exchange/strategy_table.h"

struct server_policy {
    /* CAT_STRATEGY_… whose rule in kernels/rules makes the updates; 0: that of `asgd`, a step of
     * SGD with momentum. */
    int rule;
    /* Gradients that make one update together; NULL: each makes its own. */
    int (*group)(const struct rank_env *env);
    /* A worker gets new weights only after the update that contains its gradient; NULL: right after
     * its push. */
    bool (*blocking)(const struct rank_env *env);
    /* Gradients that a worker may be ahead of the slowest before it has to wait; NULL: any. */
    int (*lead)(const struct rank_env *env);
    /* What a gradient of staleness tau is multiplied with, where `factor` would be the job's
     * (SEMANTICS.md 1); NULL: that. */
    double (*factor)(const struct jobspec *spec, double factor, int64_t tau);
    /* The rule's own parameters p0, p1, p2 for a gradient of staleness a->tau; NULL: it has none.
     */
    void (*parameters)(const struct rank_env *env, struct rule_args *a);
    /* What the rule keeps at the server beside the weights. */
    bool own_velocity;                               /* in any case; else where there is momentum */
    bool (*mean_square)(const struct jobspec *spec); /* NULL: none */
    bool compensates; /* the rule bends the gradient: how much is told with each */
};

bool server_keeps_velocity(const struct server_policy *policy, const struct jobspec *spec);
bool server_keeps_mean_square(const struct server_policy *policy, const struct jobspec *spec);

/* strategy_ops.serve. */
int server_serve(const struct server_policy *policy, struct rank_env *env,
                 const struct run_state *from, struct err *e);
/* strategy_ops.footprint. */
void server_footprint(const struct server_policy *policy, struct footprint *f);

#endif

/* The server of server strategies (server.c): rank W runs it until the job ends. Strategies differ
 * by their policy: how many gradients make an update, which workers wait for what, and with which
 * coefficients the rule is applied. */
#ifndef WORKER_EXCHANGE_SERVER_H
#define WORKER_EXCHANGE_SERVER_H

#include "worker/exchange/agenda.h"
#include "worker/exchange/footprint.h"
#include "worker/exchange/strategy_table.h"

struct server_policy {
    /* Which rule of kernels/rules makes the updates; 0 is RULE_SGD, a step of SGD with momentum. */
    enum rule rule;
    /* How many gradients make one update together; NULL: one. */
    int (*group)(const struct rank_env *env);
    /* A worker gets new weights only after the update that contains its gradient; NULL: right after
     * its push. */
    bool (*blocking)(const struct rank_env *env);
    /* How many gradients a worker may be ahead of the slowest before it waits; NULL: any number. */
    int (*lead)(const struct rank_env *env);
    /* The factor of a gradient of staleness tau, given the job's `factor` (updates.c); NULL:
     * `factor`. */
    double (*factor)(const struct jobspec *spec, double factor, int64_t tau);
    /* The rule's own parameters p0, p1, p2 for a gradient of staleness a->tau; NULL: it has none.
     */
    void (*parameters)(const struct rank_env *env, struct rule_args *a);
    /* Blocks that the rule keeps at the server besides the weights. */
    bool own_velocity;                               /* it always keeps a velocity; else only with
                                                        momentum */
    bool (*mean_square)(const struct jobspec *spec); /* NULL: none */
    bool compensates;            /* the rule changes the gradient; each reply says how much */
    struct program_part program; /* strategy_ops.program */
};

/* strategy_ops.serve. */
int server_serve(const struct server_policy *policy, struct rank_env *env,
                 const struct run_state *from, struct err *e);
/* strategy_ops.footprint. */
void server_footprint(const struct server_policy *policy, struct footprint *f);

#endif

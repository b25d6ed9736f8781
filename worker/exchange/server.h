/* The server of server strategies (server.c): rank W runs it until the job ends. */
#ifndef WORKER_EXCHANGE_SERVER_H
#define WORKER_EXCHANGE_SERVER_H

#include "worker/exchange/strategies.h"

/* Returns as strategy_ops.serve does: 0 ended, 1 paused, 2 stopped, negative. */
int server_serve(struct rank_env *env, const struct run_state *from, struct err *e);

#endif

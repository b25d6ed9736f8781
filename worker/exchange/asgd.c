/* Strategy `asgd` (Downpour, Dean et al. 2012, with one push per pull): the server applies every gradient on arrival.
 *
 *   v <- m*v + factor * (g + decay*w)     w <- w - eta*v        factor: SEMANTICS.md 1
 *
 * Nobody waits for anybody; the price is staleness: W - 1 versions on average over updates, whatever the speeds, but for a slow node
 * V/v_i - 1 (V the sum of all rates). Minibatches that fit the speeds make it W - 1 for every node. */
#include "worker/exchange/push_worker.h"
#include "worker/exchange/server.h"

static void check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    if (spec->optimizer.type != CAT_OPTIMIZER_SGD) {
        jsonx_problem(problems, "/optimizer/type", "the server of 'asgd' offers 'sgd' only");
    }
}

static struct strategy *start(struct rank_env *env, const struct run_state *state, struct err *e)
{
    (void)state; /* weights come with the server's first answer */
    return push_worker_start(&strategy_asgd, env, e);
}

const struct strategy_ops strategy_asgd = {
    .id = CAT_STRATEGY_ASGD, .server = true, .check = check, .start = start, .next = push_worker_next, .on_bucket = push_worker_bucket,
    .on_gradients = push_worker_gradients, .on_evaluated = push_worker_evaluated, .finish = push_worker_finish,
    .free = push_worker_free, .serve = server_serve,
};

/* Strategy `asgd` (Downpour, Dean et al. 2012, with one push per pull): the server applies every
 * gradient on arrival.
 *
 *   v <- m*v + factor * (g + decay*w)     w <- w - eta*v
 *
 * Factor: docs/semantics.md#learning-rate-weights-and-momentum, rule: kernels/rules/sgd.h.
 *
 * No worker waits for another; the price is staleness: W - 1 versions on average over updates,
 * whatever the speeds, but for a slow node V/v_i - 1 (V the sum of all rates). With minibatches
 * that match the speeds it is W - 1 for every node. */
#include "worker/exchange/server/push_worker.h"

static const struct server_policy policy = {0};

SERVER_STRATEGY(ASGD);

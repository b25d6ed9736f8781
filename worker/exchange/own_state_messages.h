/* A rank's own state (own_state.h) on its way to another rank. */
#ifndef WORKER_EXCHANGE_OWN_STATE_MESSAGES_H
#define WORKER_EXCHANGE_OWN_STATE_MESSAGES_H

#include "worker/exchange/own_state.h"
#include "worker/exchange/transport/comm.h"

/* Both block, without a deadline: the other side may be about to evaluate; heartbeats tell who is
 * alive. `out` needs own_state_release only after success. */
int own_state_send(struct comm *c, int to, const struct own_state *s, struct err *e);
int own_state_receive(struct comm *c, int from, struct own_state *out, struct err *e);
/* As own_state_receive(), with a wait of the caller's. The wait returns 0, or any other result,
 * which ends the call with it. By then it has cancelled a message that did not come
 * (comm_cancel). */
typedef int own_state_wait_fn(void *ctx, struct message *m, struct err *e);
int own_state_receive_by(struct comm *c, int from, struct own_state *out, own_state_wait_fn *wait,
                         void *ctx, struct err *e);
/* The same for own_state_send(). */
int own_state_send_by(struct comm *c, int to, const struct own_state *s, own_state_wait_fn *wait,
                      void *ctx, struct err *e);

#endif

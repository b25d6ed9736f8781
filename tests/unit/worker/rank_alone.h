/* Defaults for tests of one rank's strategy: a host, operations that make progress as they start, a
 * coordinator that asks for nothing. */
#ifndef TESTS_UNIT_WORKER_RANK_ALONE_H
#define TESTS_UNIT_WORKER_RANK_ALONE_H

#include "job/documents/coordinator/control.h"
#include "worker/exchange/transport/transport.h"

static const char *host_of(struct transport *t, int rank)
{
    (void)t;
    (void)rank;
    return "here";
}

static void start_op(struct transport *t, struct comm_op *op)
{
    op->state = op->step(op, t);
}

static void no_control(void *ctx, struct control *out)
{
    (void)ctx;
    (void)out;
}

static void no_phase(void *ctx, bool on)
{
    (void)ctx;
    (void)on;
}

#endif

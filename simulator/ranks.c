/* Ranks in fibers, and their operations, which are stepped when one of their messages has come or
 * gone: see world.h. transport_req.impl[0] is a message's state, impl[1] the operation to which it
 * belongs. */
#include <stdlib.h>
#include <string.h>

#include "simulator/world.h"

/* ---- operations ------------------------------------------------------------------------------ */

void world_posted(const struct sim_rank *r, struct transport_req *req)
{
    memset(req, 0, sizeof *req);
    req->impl[0] = REQ_BUSY;
    req->impl[1] = (uint64_t)(uintptr_t)r->stepping;
}

void world_through(struct sim_rank *r, struct transport_req *req, uint64_t state)
{
    struct comm_op *op = (struct comm_op *)(uintptr_t)req->impl[1];
    req->impl[0] = state;
    if (op == NULL || op == r->stepping) {
        r->again = true;
        return;
    }
    if (r->n_ready == r->ready_room) {
        r->ready_room = r->ready_room ? 2 * r->ready_room : 8;
        r->ready = realloc(r->ready, (size_t)r->ready_room * sizeof(struct comm_op *));
        BUG_ON(!r->ready);
    }
    r->ready[r->n_ready++] = op;
}

int world_step(struct sim_rank *r, struct comm_op *op)
{
    int rc;
    r->stepping = op;
    do {
        r->again = false;
        rc = op->step(op, &r->base);
    } while (rc == 0 && r->again);
    r->stepping = NULL;
    if (rc != 0) {
        op->finished = r->world->now;
        atomic_store(&op->state, rc);
    }
    return rc;
}

/* Steps the operations whose messages have come or gone. An operation that has ended still exists,
 * since its owner's fiber runs only after this. */
static void step_ops(struct sim_rank *r)
{
    for (int i = 0; i < r->n_ready; i++) {
        if (atomic_load(&r->ready[i]->state) == 0) {
            world_step(r, r->ready[i]);
        }
    }
    r->n_ready = 0;
    if (r->waiting && atomic_load(&r->waiting->state) != 0) {
        r->runnable = true;
    }
}

/* ---- ranks ----------------------------------------------------------------------------------- */

void world_run_rank(struct sim_rank *r)
{
    if (fiber_ended(r->fiber)) {
        return;
    }
    do {
        r->runnable = false;
        fiber_resume(r->fiber);
        if (!fiber_ended(r->fiber)) {
            step_ops(r);
        }
    } while (r->runnable && !fiber_ended(r->fiber));
}

void world_wake(struct sim_rank *r)
{
    step_ops(r);
    if (r->runnable) {
        world_run_rank(r);
    }
}

/* Whether this rank exchanges from its device's own memory, and that memory
 * (docs/decisions/0004-device-pointers.md). sync and the worker's half of server strategies ask
 * here at their start.
 *
 *      device   block ─► near ══ message ══► another rank's near, or its host's memory
 *      host                        words ┘
 *
 * What a newcomer would get wrong: each rank decides for itself. What a message holds, and in which
 * order sums are added, is the same on both roads, so ranks with and without such memory get along,
 * and get the same bits. And a library's current device is a setting of the thread, so the
 * communication thread is told once, before the first message, which one pointers are of. */
#include "worker/exchange/gradients/device_buffer.h"

#include <string.h>

#include "common/log.h"

struct enter {
    struct comm_op op;
    struct near *n;
};

static int enter_step(struct comm_op *op, struct transport *t)
{
    const struct near *n = ((struct enter *)op)->n;
    (void)t;
    return n->ops->enter(n->dev, &op->err) < 0 ? -ERR_DEVICE : 1;
}

static int take(struct near *n, struct comm *c, size_t floats, size_t words, struct err *e)
{
    struct enter enter = {.op.step = enter_step, .n = n};
    n->memory = n->ops->alloc(n->dev, floats, false, e);
    n->words = n->memory && words > 0 ? n->ops->alloc(n->dev, words, true, e) : NULL;
    if (!n->memory || (words > 0 && !n->words)) {
        return -ERR_MEMORY;
    }
    c->t->ops->start(c->t, &enter.op);
    return comm_wait(c, &enter.op, e);
}

void near_open(struct near *n, struct rank_env *env, size_t floats, size_t words)
{
    struct transport *t = env->comm->t;
    struct device *dev = env->replica ? env->replica->dev : NULL;
    struct err why = {0};
    char quoted[600];
    memset(n, 0, sizeof *n);
    if (!dev || !dev->ops->memory ||
        !((t->ops->device_memory && t->ops->device_memory(t)) ||
          dev->ops->memory->reachable(dev))) {
        return;
    }
    n->dev = dev;
    n->ops = dev->ops->memory;
    if (take(n, env->comm, floats, words, &why) < 0) {
        log_warn("exchange", "messages go through the host", "why=%s",
                 log_quote(quoted, sizeof quoted, why.message));
        near_close(n);
        return;
    }
    log_info("exchange", "messages go from and to the device's memory", "floats=%zu", floats);
}

void near_close(struct near *n)
{
    if (n->dev) {
        n->ops->free(n->dev, n->memory, false);
        n->ops->free(n->dev, n->words, true);
    }
    memset(n, 0, sizeof *n);
}

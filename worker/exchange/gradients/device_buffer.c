/* Memory that blocks are exchanged from: see device_buffer.h.
 *
 *      device   block ─► buffer ══ message ══► another rank's buffer, or its host's memory
 *      host                         words ┘
 *
 * Each rank decides for itself. Messages and the order of additions are the same with and without a
 * buffer, so ranks of both kinds work together and get the same bits. The current device is a
 * per-thread setting of the library: the communication thread sets it once, before the first
 * message. */
#include "worker/exchange/gradients/device_buffer.h"

#include <string.h>

#include "common/log.h"

struct enter {
    struct comm_op op;
    struct device_buffer *buffer;
};

static int enter_step(struct comm_op *op, struct transport *t)
{
    const struct device_buffer *b = ((struct enter *)op)->buffer;
    (void)t;
    int rc = b->ops->enter(b->dev, &op->err);
    return rc < 0 ? rc : COMM_DONE;
}

static int allocate(struct device_buffer *b, struct comm *c, size_t floats, size_t words,
                    struct err *e)
{
    struct enter enter = {.op.step = enter_step, .buffer = b};
    b->memory = b->ops->alloc(b->dev, floats, false, e);
    b->words = b->memory && words > 0 ? b->ops->alloc(b->dev, words, true, e) : NULL;
    if (!b->memory || (words > 0 && !b->words)) {
        return -(int)e->code;
    }
    c->t->ops->start(c->t, &enter.op);
    return comm_wait(c, &enter.op, e);
}

static bool reachable(struct transport *t, struct device *dev)
{
    return dev && dev->ops->memory &&
           ((t->ops->device_memory && t->ops->device_memory(t)) ||
            dev->ops->memory->reachable(dev));
}

bool device_buffer_open(struct device_buffer *b, struct rank_env *env, size_t floats, size_t words)
{
    struct device *dev = env->replica ? env->replica->dev : NULL;
    struct err why = {0};
    char quoted[600];
    memset(b, 0, sizeof *b);
    if (!reachable(env->comm->t, dev)) {
        return false;
    }
    b->dev = dev;
    b->ops = dev->ops->memory;
    if (allocate(b, env->comm, floats, words, &why) < 0) {
        log_warn("exchange", "messages go through the host", "why=%s",
                 log_quote(quoted, sizeof quoted, why.message));
        device_buffer_close(b);
        return false;
    }
    log_info("exchange", "messages go from and to the device's memory", "floats=%zu", floats);
    return true;
}

void device_buffer_close(struct device_buffer *b)
{
    if (b->dev) {
        b->ops->free(b->dev, b->memory, false);
        b->ops->free(b->dev, b->words, true);
    }
    memset(b, 0, sizeof *b);
}

float *device_buffer_block(const struct device_buffer *b, struct dev_replica *r,
                           enum dev_block block)
{
    return b->dev ? b->memory : r->host[block];
}

int device_buffer_fetch(const struct device_buffer *b, struct dev_replica *r, enum dev_block block,
                        size_t first, size_t n, struct err *e)
{
    return b->dev ? b->ops->fetch(r, block, first, n, 1, b->memory + first, e)
                  : r->dev->ops->fetch(r, block, first, n, e);
}

int device_buffer_store(const struct device_buffer *b, struct dev_replica *r, enum dev_block block,
                        size_t first, size_t n, struct err *e)
{
    return b->dev ? b->ops->store(r, block, first, n, b->memory + first, e)
                  : r->dev->ops->store(r, block, first, n, e);
}

bool device_reads_in_place(const struct dev_replica *r)
{
    return r->dev->ops->alias != NULL;
}

void device_read_at(struct dev_replica *r, enum dev_block block, float *at)
{
    if (device_reads_in_place(r)) {
        dev_alias(r, block, at);
    }
}

/* A user's program as a device (kernels/device.h). A strategy fetches and stores blocks, and asks
 * for updates. The blocks are the shared memory itself, so nothing is copied: a fetch waits until
 * the program has made its step, and an update lets it make that step. */
#include <stdio.h>
#include <string.h>

#include "kernels/flat.h"
#include "kernels/host_replica.h"
#include "worker/program/program.h"

static const char *describe(struct device *dev)
{
    return ((struct program_device *)dev)->name;
}

/* Gradients and statistics stand still from GRADIENTS to GO, which is when a strategy asks for
 * them. */
static int fetch(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e)
{
    struct program_device *d = (struct program_device *)r->dev;
    (void)first;
    (void)n;
    return b == DEV_PARAMS ? d->settle(d->ctx, e) : 0;
}

/* The learning rate is the program's own. */
static int update(struct dev_replica *r, double lr, double scale, struct err *e)
{
    struct program_device *d = (struct program_device *)r->dev;
    (void)lr;
    (void)e;
    if (scale != 1) {
        flat_scale(r->host[DEV_GRADS], r->host[DEV_GRADS], (float)scale, r->count[DEV_GRADS]);
    }
    d->step(d->ctx, scale);
    return 0;
}

static const struct device_ops program_ops = {
    .name = "program",
    .describe = describe,
    .fetch = fetch,
    .store = host_replica_copy,
    .update = update,
};

void program_device_init(struct program_device *d, struct program *p)
{
    d->base.ops = &program_ops;
    snprintf(d->name, sizeof(d->name), "a program with %s", p->about.framework);
}

void program_replica_init(struct dev_replica *r, struct program_device *d, const struct program *p,
                          const struct jobspec *spec)
{
    *r = (struct dev_replica){.dev = &d->base, .net = &spec->network, .optimizer = spec->optimizer};
    r->host[DEV_PARAMS] = p->block.params;
    r->host[DEV_GRADS] = p->block.grads;
    r->host[DEV_STATS] = p->block.stats;
    r->count[DEV_PARAMS] = r->count[DEV_GRADS] = spec->network.n_params;
    r->count[DEV_STATS] = spec->network.n_stat_floats;
}

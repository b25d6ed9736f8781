/* Gradients that are summed in host memory and used when all sums have ended.
 *
 *      mirror   [ … bucket 1 | bucket 0 ]     summed in place, but for the last bucket, which are
 *      last     [ last bucket | trailer ]     the first layers: the trailer is behind it */
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/gradients/ways.h"

int gradients_host_lay_out(struct gradients *g, struct bucket *b, struct err *e)
{
    if (b != gradients_last(g)) {
        return 0;
    }
    g->last = malloc((b->floats + g->trailer) * sizeof(float));
    if (!g->last) {
        return err_set(e, ERR_MEMORY, "cannot hold %zu gradients: memory ran out", b->floats);
    }
    g->written = g->last + b->floats;
    return 0;
}

int gradients_host_add(struct gradients *g, struct bucket *b, float share, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    float *mirror = r->host[DEV_GRADS] + b->first;
    bool last = b == gradients_last(g);
    int rc = r->dev->ops->fetch(r, DEV_GRADS, b->first, b->floats, e);
    if (rc < 0) {
        return rc;
    }
    flat_scale(last ? g->last : mirror, mirror, share, b->floats);
    if (!last) {
        allreduce_start(&b->sum, mirror, b->floats, 0);
    }
    return 0;
}

void gradients_host_send_last(struct gradients *g)
{
    struct bucket *b = gradients_last(g);
    allreduce_start(&b->sum, g->last, b->floats + g->trailer, g->words);
}

int gradients_wait(struct gradients *g, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < g->n_buckets && rc >= 0; i++) {
        rc = comm_wait(g->env->comm, &g->buckets[i].sum.op, e);
    }
    return rc;
}

void gradients_host_take_last(struct gradients *g)
{
    struct dev_replica *r = g->env->replica;
    struct bucket *b = gradients_last(g);
    memcpy(r->host[DEV_GRADS], g->last, b->floats * sizeof(float));
    g->sums = g->written;
}

static int update(struct gradients *g, double learning_rate, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    int rc;
    gradients_host_send_last(g);
    if ((rc = gradients_wait(g, e)) < 0) {
        return rc;
    }
    gradients_host_take_last(g);
    if ((rc = r->dev->ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e)) < 0) {
        return rc;
    }
    return gradients_apply(g, learning_rate, e);
}

const struct gradients_way gradients_host = {
    .name = "host", .lay_out = gradients_host_lay_out, .add = gradients_host_add, .update = update};

/* Gradients that are summed in the device's memory, where MPI takes the device's pointers: the
 * device adds what a ring brings (docs/decisions/0004-device-pointers.md).
 *
 *      buffer   [ last bucket | trailer | … bucket 1 | bucket 0 ]
 *      pinned                 [ trailer ]      written by the host, copied behind the last bucket
 *
 * If the device has no room for a bucket's sum, that bucket is summed on the host; the others are
 * summed here. */
#include "worker/exchange/gradients/ways.h"

static float *place_of(const struct gradients *g, const struct bucket *b)
{
    return g->buffer.memory + b->first + (b == gradients_last(g) ? 0 : g->trailer);
}

static int lay_out(struct gradients *g, struct bucket *b, struct err *e)
{
    struct err no_room;
    if (allreduce_place(&b->sum, g->buffer.dev, &no_room) < 0) {
        return gradients_host_lay_out(g, b, e);
    }
    if (b == gradients_last(g)) {
        g->written = g->buffer.words;
    }
    return 0;
}

static int add(struct gradients *g, struct bucket *b, float share, struct err *e)
{
    float *at = place_of(g, b);
    if (!allreduce_on_device(&b->sum)) {
        return gradients_host_add(g, b, share, e);
    }
    int rc = g->buffer.ops->fetch(g->env->replica, DEV_GRADS, b->first, b->floats, share, at, e);
    if (rc >= 0 && b != gradients_last(g)) {
        allreduce_start(&b->sum, at, b->floats, 0);
    }
    return rc;
}

static int send_last(struct gradients *g, struct err *e)
{
    struct bucket *b = gradients_last(g);
    float *at = place_of(g, b);
    if (!allreduce_on_device(&b->sum)) {
        gradients_host_send_last(g);
        return 0;
    }
    int rc = g->buffer.ops->put(g->buffer.dev, at + b->floats, g->written, g->trailer, e);
    if (rc >= 0) {
        allreduce_start(&b->sum, at, b->floats + g->trailer, g->words);
    }
    return rc;
}

static int take_last(struct gradients *g, struct err *e)
{
    struct bucket *b = gradients_last(g);
    if (!allreduce_on_device(&b->sum)) {
        gradients_host_take_last(g);
        return 0;
    }
    g->sums = g->written;
    return g->buffer.ops->get(g->buffer.dev, g->written, place_of(g, b) + b->floats, g->trailer, e);
}

static int store_sums(struct gradients *g, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    int rc = 0;
    for (int i = 0; i < g->n_buckets && rc >= 0; i++) {
        const struct bucket *b = &g->buckets[i];
        rc = allreduce_on_device(&b->sum)
                 ? g->buffer.ops->store(r, DEV_GRADS, b->first, b->floats, place_of(g, b), e)
                 : r->dev->ops->store(r, DEV_GRADS, b->first, b->floats, e);
    }
    return rc;
}

static int update(struct gradients *g, double learning_rate, struct err *e)
{
    int rc;
    if ((rc = send_last(g, e)) < 0 || (rc = gradients_wait(g, e)) < 0 ||
        (rc = take_last(g, e)) < 0 || (rc = store_sums(g, e)) < 0) {
        return rc;
    }
    return gradients_apply(g, learning_rate, e);
}

const struct gradients_way gradients_on_device = {
    .name = "on the device", .lay_out = lay_out, .add = add, .update = update};

/* Gradients of one bucket whose sum stays in the transport's memory. All members read one copy
 * instead of getting one each, which the simulator needs for a thousand ranks in one process. For a
 * device that can read its gradients in place. */
#include "worker/exchange/gradients/ways.h"

static int lay_out(struct gradients *g, struct bucket *b, struct err *e)
{
    b->sum.lent = true;
    return gradients_host_lay_out(g, b, e);
}

static int update(struct gradients *g, double learning_rate, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    struct bucket *b = gradients_last(g);
    gradients_host_send_last(g);
    int rc = gradients_wait(g, e);
    if (rc < 0) {
        return rc;
    }
    g->sums = b->sum.sum + b->floats;
    device_read_at(r, DEV_GRADS, b->sum.sum);
    rc = gradients_apply(g, learning_rate, e);
    device_read_at(r, DEV_GRADS, NULL);
    return rc;
}

const struct gradients_way gradients_lent = {
    .name = "lent", .lay_out = lay_out, .add = gradients_host_add, .update = update};

/* Gradients that are summed in host memory and used part by part. When a ring has the sum of one of
 * its chunks, the device updates those parameters while the other sums are still under way. The
 * result has the same bits as one update of all, for an optimizer that does not clip. */
#include <string.h>

#include "worker/exchange/gradients/ways.h"

/* Updates with floats [first, first + n) of a bucket's sum. They may reach into the trailer, which
 * has no gradients. */
static int update_part(struct gradients *g, const struct bucket *b, size_t first, size_t n,
                       double learning_rate, bool last_part, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    size_t at = b->first + first;
    n = first + n < b->floats ? n : first < b->floats ? b->floats - first : 0;
    if (b == gradients_last(g)) {
        memcpy(r->host[DEV_GRADS] + at, g->last + first, n * sizeof(float));
    }
    gradients_keep_part(g, at, n);
    int rc = r->dev->ops->store(r, DEV_GRADS, at, n, e);
    if (rc < 0) {
        return rc;
    }
    return dev_update_part(r, at, n, learning_rate, 1.0, last_part, e);
}

static int update_bucket(struct gradients *g, struct bucket *b, double learning_rate, struct err *e)
{
    size_t first, n;
    int left, rc = 0;
    while ((left = allreduce_next_part(&b->sum, &first, &n, e)) > 0) {
        bool last_part = left == 1 && b == gradients_last(g);
        if ((rc = update_part(g, b, first, n, learning_rate, last_part, e)) < 0) {
            return rc;
        }
    }
    return left;
}

static int update(struct gradients *g, double learning_rate, struct err *e)
{
    int rc = 0;
    gradients_begin_parts(g);
    gradients_host_send_last(g);
    for (int i = 0; i < g->n_buckets && rc >= 0; i++) {
        rc = update_bucket(g, &g->buckets[i], learning_rate, e);
    }
    if (rc >= 0) {
        gradients_end_parts(g);
    }
    g->sums = g->written;
    return rc;
}

const struct gradients_way gradients_by_part = {.name = "by part",
                                                .lay_out = gradients_host_lay_out,
                                                .add = gradients_host_add,
                                                .update = update};

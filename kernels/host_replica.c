/* Blocks in host memory: see host_replica.h. */
#include "kernels/host_replica.h"

#include <stdlib.h>
#include <string.h>

void host_replica_release(struct dev_replica *r)
{
    for (int b = 0; b < DEV_BLOCKS; b++) {
        free(r->host[b]);
        r->host[b] = NULL;
        r->count[b] = 0;
    }
}

int host_replica_init(struct device *dev, struct dev_replica *r, const struct network *net,
                      const struct optimizer_spec *opt, struct err *e)
{
    memset(r, 0, sizeof(*r));
    r->dev = dev;
    r->net = net;
    r->optimizer = *opt;
    r->count[DEV_PARAMS] = r->count[DEV_GRADS] = net->n_params;
    r->count[DEV_OPTIM] = dev_optim_floats(net, opt);
    r->count[DEV_STATS] = net->n_stat_floats;
    for (int b = 0; b < DEV_BLOCKS; b++) {
        size_t bytes = (r->count[b] * sizeof(float) + 127) / 64 * 64;
        r->host[b] = aligned_alloc(64, bytes);
        if (!r->host[b]) {
            host_replica_release(r);
            return err_set(
                e, ERR_MEMORY,
                "cannot allocate %zu bytes for a network of %zu parameters: memory ran out", bytes,
                net->n_params);
        }
        memset(r->host[b], 0, bytes);
    }
    return 0;
}

int host_replica_copy(struct dev_replica *r, enum dev_block b, size_t first, size_t n,
                      struct err *e)
{
    return 0;
}

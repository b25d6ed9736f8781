/* A replica whose four blocks are plain host memory, for devices that compute there. The mirror is
 * the block itself, so nothing is copied.
 */
#ifndef KERNELS_HOST_REPLICA_H
#define KERNELS_HOST_REPLICA_H

#include "kernels/device.h"

/* device_ops.replica_init: four zeroed blocks, aligned to 64 bytes; `impl` is NULL. */
int host_replica_init(struct device *dev, struct dev_replica *r, const struct network *net,
                      const struct optimizer_spec *opt, struct err *e);
void host_replica_release(struct dev_replica *r);
/* device_ops.fetch and store: do nothing. */
int host_replica_copy(struct dev_replica *r, enum dev_block b, size_t first, size_t n,
                      struct err *e);
/* device_ops.update with OpenMP's threads for the caller: cpu/update.c. */
int cpu_update(struct dev_replica *r, double lr, double scale, struct err *e);

#endif

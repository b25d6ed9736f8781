/* Memory of the device that messages are sent from and received into, where MPI takes such pointers
 * (near.c). Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_NEAR_H
#define WORKER_EXCHANGE_NEAR_H

#include "worker/exchange/strategy.h"

struct near {
    struct device *dev; /* NULL: there is none, and everything goes through the host */
    const struct dev_memory_ops *ops;
    float *memory; /* [floats] of the device */
    float *words;  /* [words] pinned: what the host adds to a message, and reads of one */
};

/* Asks, and takes the memory; what it does, or why it cannot, is logged. A worker's, before its
 * first step. */
void near_open(struct near *n, struct rank_env *env, size_t floats, size_t words);
void near_close(struct near *n);

#endif

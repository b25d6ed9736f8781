/* A rank's model: its replica on the device, and the programs for the minibatch sizes in use.
 *
 * A program is built for one size. While training continues with the old size, a thread prepares
 * the program for the new one (model_ready() starts it and reports when it is ready), so that a new
 * assignment never pauses a step. A few programs are kept; when the cache or the device's memory is
 * full, the least recently used one is evicted.
 */
#ifndef WORKER_MODEL_MODEL_H
#define WORKER_MODEL_MODEL_H

#include <pthread.h>

#include "kernels/device.h"

enum { MODEL_PROGRAMS = 6 };

struct model {
    struct device *dev;         /* borrowed */
    const struct jobspec *spec; /* borrowed */
    struct dev_replica replica;
    bool replica_there;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct {
        struct dev_program *program; /* NULL: a free entry */
        int batch;
        uint64_t used;
    } cache[MODEL_PROGRAMS];
    uint64_t uses;
    const struct dev_program *held; /* the last one taken */
    int largest;                    /* estimate of the largest minibatch that fits into memory */
    int wanted, building;           /* sizes; 0: none */
    int refused;                    /* a size that could not be built, and the reason; 0: none */
    struct err failure;
    bool stopping;
};

/* Builds the replica, and finds out which minibatches fit. threaded false: model_ready() builds at
 * once (virtual time). */
int model_init(struct model *m, struct device *dev, const struct jobspec *spec, bool threaded,
               struct err *e);
void model_release(struct model *m);
/* The program for this size: from the cache, or after waiting for it, or built now. Valid until
 * another one is taken. */
struct dev_program *model_program(struct model *m, int batch, struct err *e);
/* Is there a program for this size? If not, starts preparing it. Sizes that do not fit are never
 * ready. */
bool model_ready(struct model *m, int batch);
/* The largest minibatch that fits into the device's memory, as far as is known. */
int model_limit(struct model *m);
/* Searches below `batch`, which did not fit as *why says, for about the largest size that fits.
 * That size becomes the limit, and *why names it. 0: nothing fits, or memory was not the
 * problem. */
int model_find_limit(struct model *m, int batch, struct err *why);
/* The largest size that has a program, for evaluations; 0: none. */
int model_largest_program(struct model *m);

#endif

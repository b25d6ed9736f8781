/* What a strategy keeps in memory and what its all-reduces carry, computed from a job's spec alone,
 * before anything is allocated. The simulator adds the blocks up (simulator/memory.c) and charges
 * for all-reduces that have no numbers (evenstep-simulate --timing-only). Each strategy fills it
 * in, next to the code that allocates: strategy_ops.footprint. */
#ifndef WORKER_EXCHANGE_FOOTPRINT_H
#define WORKER_EXCHANGE_FOOTPRINT_H

#include "job/spec/spec.h"

enum { FOOTPRINT_BLOCKS = 8 };

struct footprint {
    const struct jobspec *spec; /* borrowed */
    /* The number of workers. Floats of the job's blocks, of the words by which ranks agree, and of
     * a ring's scratch for one block of parameters. */
    double workers, params, optim, stats, words, chunk;
    /* Filled in by the strategy. */
    struct footprint_block {
        const char *name; /* static */
        double floats;
        double times;    /* how many there are in the job */
        bool of_workers; /* every worker has such a block */
    } blocks[FOOTPRINT_BLOCKS];
    int n_blocks;
    double survivors; /* floats that a real worker keeps besides, to go on when another one dies */
    size_t summed;    /* floats of an all-reduce over all workers, words not counted */
    bool by_bucket;   /* instead, each bucket of gradients is an all-reduce */
};

/* Fills in the job's part. `summed` is one block of parameters unless the strategy sets it. */
void footprint_init(struct footprint *f, const struct jobspec *spec);
/* Adds a block that every worker has. */
void footprint_add_workers(struct footprint *f, const char *name, double floats);
/* Adds a block that the job has `times` times. */
void footprint_add(struct footprint *f, const char *name, double floats, double times);

#endif

/* What a virtual job will need in memory, block by block, known before anything is allocated
 * (docs/virtual-cluster.md has the table). */
#ifndef SIMULATOR_MEMORY_H
#define SIMULATOR_MEMORY_H

#include "job/spec/spec.h"
#include "worker/data/dataset.h"

enum { MEMORY_ROWS = 16 };

struct memory_need {
    struct memory_row {
        const char *name;
        double bytes; /* for all nodes together */
    } rows[MEMORY_ROWS];
    int n_rows;
    double bytes;      /* of all rows */
    double rank_bytes; /* for a real rank with the largest minibatch: its blocks and its program */
    double node_bytes; /* for the node with the largest minibatch: its blocks, without a share of
                          the server's */
};

/* sizes: [spec->workers] samples of a step, with the first minibatches. data: from dataset_peek();
 * NULL: none is held. threads: gradients at a time. */
void memory_count(struct memory_need *out, const struct jobspec *spec, const int *sizes,
                  const struct dataset *data, int threads);
/* 0 if need->bytes is at most `there` bytes; else an error that names every block of 1 % or
 * more. */
int memory_check(const struct memory_need *need, const struct jobspec *spec, double there,
                 struct err *e);

#endif

/* Writes the history of a long job, as the monitor does, for bench_service.py:
 *
 *   bench_history JOBDIR NODES ROWS
 *
 * ROWS rows in all, of NODES nodes named n0, n1, …; every node reports each step. Figures vary as
 * those of a real job do: noise by counter (common/rng.h), one node twice as slow, a loss that
 * falls.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/rng.h"
#include "store/history.h"

enum { NODES_MOST = 1024, NAME = 16 };

static struct row row_of(int rank, int64_t step)
{
    struct row r = row_blank();
    double own = rng_double(1, (uint64_t)rank, (uint64_t)step), compute = rank == 3 ? 0.2 : 0.1;
    r.rank = (int16_t)rank;
    r.step = r.local_step = step;
    r.attempt = 1;
    r.time = 0.25 * (double)step + 0.01 * own;
    r.epoch = (double)step / 400;
    r.batch = 32;
    r.loss = (float)(2.3 / (1 + 0.002 * (double)step) + 0.3 * own);
    r.accuracy = (float)fmin(1, 0.1 + 0.0002 * (double)step);
    r.compute_seconds = (float)(compute * (0.95 + 0.1 * own));
    r.exchange_seconds = (float)(0.01 * own);
    r.wait_seconds = (float)(0.21 - r.compute_seconds);
    r.load_seconds = (float)(1e-5 * (1 + own));
    r.staleness = (int32_t)(4 * own);
    r.bytes = 1000000;
    return r;
}

int main(int argc, char **argv)
{
    static char names[NODES_MOST][NAME];
    const char *list[NODES_MOST];
    struct err e = {0};
    int nodes = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    int64_t rows = argc == 4 ? strtoll(argv[3], NULL, 10) : 0;
    if (nodes < 1 || nodes > NODES_MOST || rows < nodes) {
        fprintf(stderr, "bench_history JOBDIR NODES ROWS\n");
        return 2;
    }
    for (int i = 0; i < nodes; i++) {
        snprintf(names[i], NAME, "n%d", i);
        list[i] = names[i];
    }
    struct history *h = history_open(argv[1], nodes, list, &e);
    int rc = h ? 0 : -1;
    for (int64_t step = 1; rc >= 0 && step <= rows / nodes; step++) {
        for (int rank = 0; rc >= 0 && rank < nodes; rank++) {
            struct row r = row_of(rank, step);
            rc = history_append(h, &r, 1, &e);
        }
        if (rc >= 0 && step % 1000 == 0) {
            rc = history_evaluation(h, step, (double)step / 400, 0.25 * (double)step,
                                    32.0 * nodes * (double)step, 1, 0.9, &e);
        }
    }
    if (rc >= 0) {
        rc = history_flush(h, &e);
    }
    if (h) {
        history_close(h);
    }
    if (rc < 0) {
        fprintf(stderr, "bench_history: %s\n", e.message);
    }
    return rc < 0;
}

/* The sweep behind job/minibatch/balancer.c's threshold: answers "STRATEGY NOISE LOAD ON OFF
 * ERRORS" with the changes of minibatches in 500 steps, and the steps until a node that became
 * twice as slow is met, the median and the ninth of ten. On the virtual clock
 * (tests/unit/job/unsteady.h). */
#include <stdio.h>
#include <string.h>

#include "tests/unit/job/unsteady.h"

enum { SEEDS = 50 };

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    char line[200], strategy[16];
    struct trial t = {.workers = 4, .turn = 2};
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%15s %lf %lf %lf %lf %lf", strategy, &t.noise, &t.load, &t.on, &t.off,
                   &t.errors) != 6) {
            fprintf(stderr, "bench_balance: cannot answer '%.60s'\n", line);
            return 1;
        }
        int met[SEEDS], changes = 0;
        t.server = strcmp(strategy, "sync") != 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            struct trial_result r = trial(&t, 1000 + (uint64_t)seed);
            met[seed] = r.met;
            changes += r.changes;
        }
        qsort(met, SEEDS, sizeof *met, ascending);
        printf("%g %d %d\n", (double)changes / SEEDS, met[SEEDS / 2], met[SEEDS * 9 / 10]);
        fflush(stdout);
    }
    return 0;
}

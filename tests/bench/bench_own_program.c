/* A program for bench-own-program: what taking part in a run costs, without any training.
 *
 *     bench_own_program OUTPUT PARAMETERS STEPS STEP_US
 *
 * A step sleeps STEP_US in place of computing, so both sides sleep and are woken in each of them.
 * OUTPUT-RANK gets a line: microseconds of CPU a step that the calls of libevenstep take (median),
 * and those of the rank's process with all its threads (mean).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/include/evenstep.h"

#define BATCH 64

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* CPU seconds of the calls in each step; how many steps there were, or -1. */
static int run_steps(const struct es_about *about, int step_us, double *each, int64_t most,
                     int *rank)
{
    struct es_run run = {0};
    struct es_slice slice;
    const struct es_result result = {.samples = -1, .loss = 1, .correct = -1, .learning_rate = 1};
    struct timespec pause = {.tv_nsec = 1000L * step_us};
    int n = 0, rc = es_join(about, &run);

    *rank = run.rank;
    while (rc >= 0) {
        double begin = seconds(CLOCK_THREAD_CPUTIME_ID), computing;

        rc = es_step(&slice);
        if (rc != 1) {
            break;
        }
        computing = seconds(CLOCK_THREAD_CPUTIME_ID);
        nanosleep(&pause, NULL);
        computing = seconds(CLOCK_THREAD_CPUTIME_ID) - computing;
        rc = es_gradients(&result);
        if (n < most) {
            each[n++] = seconds(CLOCK_THREAD_CPUTIME_ID) - begin - computing;
        }
    }
    return rc < 0 ? -1 : n;
}

int main(int argc, char **argv)
{
    int64_t params = argc > 4 ? strtoll(argv[2], NULL, 10) : 0;
    int64_t steps = argc > 4 ? strtoll(argv[3], NULL, 10) : 0;
    float *initial = calloc((size_t)(params > 0 ? params : 1), sizeof(*initial));
    const struct es_tensor tensor = {
        .name = "all", .dims = 1, .shape = &params, .initial = initial};
    const struct es_about about = {
        .abi = ES_ABI,
        .framework = "no framework",
        .samples = steps * BATCH,
        .global_batch = BATCH,
        .ahead = 1,
        .epochs = 1,
        .n_params = 1,
        .params = &tensor,
        .optimizer = {.name = "none", .server = 0, .learning_rate = 1},
    };
    double *each = calloc((size_t)(steps > 0 ? steps : 1), sizeof(*each));
    char path[4096];
    clockid_t clock;
    double before;
    FILE *out;
    int n, rank;

    if (steps <= 0 || params <= 0 || !each || !initial ||
        clock_getcpuclockid(getppid(), &clock) != 0) {
        fprintf(stderr, "usage: bench_own_program OUTPUT PARAMETERS STEPS STEP_US\n");
        return 2;
    }
    before = seconds(clock);
    n = run_steps(&about, (int)strtol(argv[4], NULL, 10), each, steps, &rank);
    snprintf(path, sizeof(path), "%s-%d", argv[1], rank);
    if (n <= 0 || !(out = fopen(path, "w"))) {
        fprintf(stderr, "bench_own_program: %s\n", n < 0 ? es_error() : "no step was made");
        return 1;
    }
    qsort(each, (size_t)n, sizeof(*each), ascending);
    fprintf(out, "%.2f %.2f\n", 1e6 * each[n / 2], 1e6 * (seconds(clock) - before) / n);
    fclose(out);
    free(each);
    free(initial);
    return 0;
}

/* Shared by the tests of the balancer: workers with drawn step times, and the distance of their
 * minibatches from the best ones. */
#ifndef TESTS_JOB_BALANCING_H
#define TESTS_JOB_BALANCING_H

#include "tests/unit/job/assignments.h"

/* A worker's step takes a + k * batch seconds, with this noise. */
struct node {
    double a, k, noise;
};

static const char *const names[] = {"ada", "bob", "cleo", "dan"};

static inline void open_balancer(struct balancer *b, const struct batching_spec *spec, int workers)
{
    struct err e;
    if (balancer_init(b, spec, workers, 4, NULL, names, &e) < 0) {
        fail_msg("%s", e.message);
    }
}

/* Makes steps `step` to `until`; every worker reports each of them, as under `sync`. */
static inline void train(struct balancer *b, const struct node *nodes, uint64_t seed, int64_t step,
                         int64_t until)
{
    for (; step < until; step++) {
        int sum = 0;
        for (int i = 0; i < b->workers; i++) {
            int batch = b->current.sizes[i];
            double z = rng_normal(seed, (uint64_t)i, (uint64_t)step);
            z = z > 3 ? 3 : z < -3 ? -3 : z;
            balancer_observe(b, i, batch,
                             (nodes[i].a + nodes[i].k * batch) * (1 + nodes[i].noise * z),
                             0.1 * (double)step);
            sum += batch;
        }
        assert_int_equal(sum, b->batching.global_batch);
        balancer_decide(b, step);
    }
}

static inline double step_seconds(const struct balancer *b, const struct node *nodes)
{
    double T = 0;
    for (int i = 0; i < b->workers; i++) {
        T = fmax(T, nodes[i].a + nodes[i].k * b->current.sizes[i]);
    }
    return T;
}

static inline double best_seconds(const struct balancer *b, const struct node *nodes)
{
    double a[4], k[4];
    int sizes[4];
    for (int i = 0; i < b->workers; i++) {
        a[i] = nodes[i].a;
        k[i] = nodes[i].k;
    }
    return assign_equal_finish(a, k, NULL, b->workers, b->batching.global_batch, 1, 4, sizes);
}

#endif

/* A balancer on the virtual clock, with nodes whose CPU quota stops them, as in Linux: a node that
 * has used its share of a period stops until the period ends. Steps are far shorter than a period,
 * so most are not stopped and a few are stopped for long. */
#ifndef TESTS_JOB_THROTTLED_H
#define TESTS_JOB_THROTTLED_H

#include <math.h>
#include <stdbool.h>

#include "common/rng.h"
#include "job/minibatch/balancer.h"

enum { THROTTLED_MOST = 4 };

struct throttled_node {
    double quota;         /* cores */
    double a, k;          /* CPU seconds of a step, and of each of its samples */
    double phase;         /* seconds, when its periods begin */
    double period, spent; /* number of the current period; CPU seconds used in it */
    double began, ends;   /* of the current step */
    int batch;            /* of that step */
    uint64_t steps;
};

struct throttled {
    int workers, global_batch;
    bool server;   /* each worker goes at its own pace, else all wait for the slowest */
    bool told;     /* the balancer knows the quotas' limits */
    double window; /* seconds that an observation covers */
    double period; /* seconds */
    double noise;  /* relative standard deviation of a step's CPU time */
    uint64_t seed;
    struct throttled_node nodes[THROTTLED_MOST];
    struct balancer b;
    double now, limits_at;
    int64_t step;
};

static inline double throttled_cpu(const struct throttled_node *n, int batch)
{
    return n->a + n->k * batch;
}

/* The time when this many CPU seconds, started at `t`, are over. */
static inline double throttled_end(const struct throttled *r, struct throttled_node *n, double t,
                                   double cpu)
{
    while (cpu > 0) {
        double period = floor((t - n->phase) / r->period + 1e-9),
               next = (period + 1) * r->period + n->phase;
        if (period != n->period) {
            n->period = period;
            n->spent = 0;
        }
        double run = fmin(fmin(cpu, n->quota * r->period - n->spent), next - t);
        if (run <= 1e-12) {
            t = next;
            continue;
        }
        n->spent += run;
        cpu -= run;
        t += run;
    }
    return t;
}

static inline void throttled_begin(struct throttled *r, int i)
{
    struct throttled_node *n = &r->nodes[i];
    double z = rng_normal(r->seed, (uint64_t)i, n->steps++);
    n->began = r->now;
    n->batch = r->b.current.sizes[i];
    n->ends = throttled_end(r, n, r->now, throttled_cpu(n, n->batch) * fmax(0.2, 1 + r->noise * z));
}

static inline void throttled_observe(struct throttled *r, int i)
{
    const struct throttled_node *n = &r->nodes[i];
    balancer_observe(&r->b, i, n->batch, n->ends - n->began, n->ends);
}

static inline void throttled_open(struct throttled *r)
{
    struct batching_spec spec = {
        .policy = BATCH_DYNAMIC, .global_batch = r->global_batch, .min_batch = 1};
    BUG_ON(balancer_init(&r->b, &spec, r->workers, 4, NULL, NULL, NULL) < 0);
    r->b.window = r->window;
    for (int i = 0; i < r->workers; i++) {
        r->nodes[i].phase = r->period * (double)rng_below(r->seed, 5, (uint64_t)i, 1000) / 1000;
        r->nodes[i].period = -2;
        throttled_begin(r, i);
    }
}

/* Tells the balancer each node's limit from its CPU time and quota; a worker reports it a few times
 * a second. */
static inline void throttled_tell(struct throttled *r)
{
    if (!r->told || r->now < r->limits_at) {
        return;
    }
    r->limits_at = r->now + 0.4;
    for (int i = 0; i < r->workers; i++) {
        const struct throttled_node *n = &r->nodes[i];
        balancer_limit(&r->b, i, n->batch, throttled_cpu(n, n->batch) / n->quota);
    }
}

/* Makes one step of every worker or, under a server, as many steps as there are workers, in the
 * order of their ends. */
static inline void throttled_step(struct throttled *r)
{
    if (r->server) {
        for (int n = 0; n < r->workers; n++) {
            int first = 0;
            for (int i = 1; i < r->workers; i++) {
                first = r->nodes[i].ends < r->nodes[first].ends ? i : first;
            }
            r->now = r->nodes[first].ends;
            throttled_observe(r, first);
            throttled_begin(r, first);
        }
    } else {
        for (int i = 0; i < r->workers; i++) {
            r->now = fmax(r->now, r->nodes[i].ends);
        }
        for (int i = 0; i < r->workers; i++) {
            throttled_observe(r, i);
            throttled_begin(r, i);
        }
    }
    throttled_tell(r);
    balancer_decide(&r->b, ++r->step);
}

/* Runs until this many seconds of the job are over. */
static inline void throttled_run(struct throttled *r, double until)
{
    while (r->now < until) {
        throttled_step(r);
    }
}

/* How much longer a step is, because of the quotas, than with the best minibatches. */
static inline double throttled_cost(const struct throttled *r)
{
    double a[THROTTLED_MOST], k[THROTTLED_MOST], longest = 0;
    int sizes[THROTTLED_MOST];
    for (int i = 0; i < r->workers; i++) {
        a[i] = r->nodes[i].a / r->nodes[i].quota;
        k[i] = r->nodes[i].k / r->nodes[i].quota;
        longest = fmax(longest, a[i] + k[i] * r->b.current.sizes[i]);
    }
    return longest / assign_equal_finish(a, k, NULL, r->workers, r->global_batch, 1, 4, sizes);
}

#endif

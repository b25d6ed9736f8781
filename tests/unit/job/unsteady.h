/* A balancer on the virtual clock, with nodes of given speeds and noisy steps. One node has a load
 * that comes and goes, and another changes its speed for good. Counts how often minibatches change
 * while speeds are constant, and how many steps pass until they fit the new speed. The tests and a
 * parameter sweep (tests/bench/bench_balance.c) share it. */
#ifndef TESTS_JOB_UNSTEADY_H
#define TESTS_JOB_UNSTEADY_H

#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "job/minibatch/balancer.h"

enum { TRIAL_WORKERS = 16, TRIAL_SETTLE = 500, TRIAL_STEPS = 1000, TRIAL_AFTER = 100 };

struct trial {
    int workers;    /* of speeds 1, 1, 1/2, 1/4, and so on */
    bool server;    /* each worker goes at its own pace, else all wait for the slowest */
    double noise;   /* relative standard deviation of a step's time */
    double load;    /* factor of the last node's steps under load; 1: never loaded */
    double on, off; /* mean seconds with and without load; a step takes about one */
    double turn;    /* factor of the second node's steps after TRIAL_STEPS */
    double errors;  /* standard errors that a change needs; 0: the balancer's own */
};

struct trial_result {
    int changes; /* between TRIAL_SETTLE and TRIAL_STEPS */
    int met;     /* steps from the turn until three quarters of its cost are gone; TRIAL_AFTER: it
                    took longer */
};

struct trial_node {
    double k, factor;      /* seconds per sample; factor of the turn */
    double until;          /* when its load comes or goes */
    double began;          /* of the current step */
    int batch;             /* of the current step */
    uint64_t steps, times; /* draws of noise, and of loads */
    bool loaded;
};

struct trial_run {
    const struct trial *t;
    uint64_t seed;
    struct trial_node nodes[TRIAL_WORKERS];
    struct balancer b;
    double now, ends[TRIAL_WORKERS];
};

/* Is the node loaded? Durations are exponential. */
static inline bool trial_loaded(struct trial_run *r, int i)
{
    struct trial_node *n = &r->nodes[i];
    while (r->t->load > 1 && i == r->t->workers - 1 && r->now >= n->until) {
        n->loaded = n->times++ > 0 && !n->loaded;
        double u = (double)(rng_below(r->seed, 7, n->times, 1u << 30) + 1) / (1u << 30);
        n->until += -log(u) * (n->loaded ? r->t->on : r->t->off);
    }
    return n->loaded;
}

/* Starts a step of the node; returns how long it takes. */
static inline double trial_begin(struct trial_run *r, int i)
{
    struct trial_node *n = &r->nodes[i];
    double z;
    do {
        z = rng_normal(r->seed, (uint64_t)i, n->steps++);
    } while (fabs(z) > 3);
    n->began = r->now;
    n->batch = r->b.current.sizes[i];
    return n->k * n->factor * (trial_loaded(r, i) ? r->t->load : 1) * n->batch *
           (1 + r->t->noise * z);
}

/* The time of a step with these minibatches, or with the best ones (NULL), without noise and
 * load. */
static inline double trial_ideal(const struct trial_run *r, const int *sizes)
{
    double longest = 0, rate = 0;
    for (int i = 0; i < r->t->workers; i++) {
        double k = r->nodes[i].k * r->nodes[i].factor;
        rate += 1 / k;
        longest = sizes ? fmax(longest, k * sizes[i]) : 0;
    }
    return sizes ? longest : r->b.batching.global_batch / rate;
}

/* Makes one step of every worker, which takes as long as the slowest. */
static inline void trial_together(struct trial_run *r)
{
    double took[TRIAL_WORKERS], longest = 0;
    for (int i = 0; i < r->t->workers; i++) {
        took[i] = trial_begin(r, i);
        longest = fmax(longest, took[i]);
    }
    r->now += longest;
    for (int i = 0; i < r->t->workers; i++) {
        balancer_observe(&r->b, i, r->nodes[i].batch, took[i], r->now);
    }
}

/* Makes as many pushes as there are workers, in the order of their ends. */
static inline void trial_asynchronous(struct trial_run *r)
{
    for (int n = 0; n < r->t->workers; n++) {
        int first = 0;
        for (int i = 1; i < r->t->workers; i++) {
            first = r->ends[i] < r->ends[first] ? i : first;
        }
        struct trial_node *node = &r->nodes[first];
        r->now = r->ends[first];
        balancer_observe(&r->b, first, node->batch, r->now - node->began, r->now);
        r->ends[first] = r->now + trial_begin(r, first);
    }
}

static inline struct trial_run *trial_open(const struct trial *t, uint64_t seed)
{
    static const double slowness[] = {1, 1, 2, 4};
    struct batching_spec spec = {
        .policy = BATCH_DYNAMIC, .global_batch = 128 * t->workers, .min_batch = 1};
    struct trial_run *r = calloc(1, sizeof *r);
    BUG_ON(!r || balancer_init(&r->b, &spec, t->workers, 4, NULL, NULL, NULL) < 0);
    r->t = t;
    r->seed = seed;
    r->b.errors = t->errors > 0 ? t->errors : r->b.errors;
    for (int i = 0; i < t->workers; i++) {
        r->nodes[i] = (struct trial_node){.k = slowness[i % 4] / 230, .factor = 1};
        r->ends[i] = trial_begin(r, i);
    }
    return r;
}

static inline void trial_close(struct trial_run *r)
{
    balancer_release(&r->b);
    free(r);
}

static inline void trial_step(struct trial_run *r, int64_t step)
{
    if (r->t->server) {
        trial_asynchronous(r);
    } else {
        trial_together(r);
    }
    balancer_decide(&r->b, step);
}

static inline struct trial_result trial(const struct trial *t, uint64_t seed)
{
    struct trial_run *r = trial_open(t, seed);
    struct trial_result out = {.met = TRIAL_AFTER};
    for (int64_t step = 1; step <= TRIAL_STEPS; step++) {
        trial_step(r, step);
        if (step == TRIAL_SETTLE) {
            out.changes = -(int)r->b.changes;
        }
    }
    out.changes += (int)r->b.changes;
    r->nodes[1].factor = t->turn;
    double before = trial_ideal(r, r->b.current.sizes), best = trial_ideal(r, NULL);
    for (int step = 1; step < out.met; step++) {
        trial_step(r, TRIAL_STEPS + step);
        if (trial_ideal(r, r->b.current.sizes) - best <= 0.25 * (before - best)) {
            out.met = step;
        }
    }
    trial_close(r);
    return out;
}

#endif

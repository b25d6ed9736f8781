/* Shared by the tests of assignments: a policy's spec, and sizes to compare with. */
#ifndef TESTS_JOB_ASSIGNMENTS_H
#define TESTS_JOB_ASSIGNMENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "job/minibatch/balancer.h"

/* Use one at a time: the next call returns the same storage. */
static inline struct batching_spec *policy(enum batching_policy p, int B)
{
    static struct batching_spec b;
    memset(&b, 0, sizeof b);
    b.policy = p;
    b.global_batch = B;
    b.min_batch = 1;
    return &b;
}

static inline void check_sizes(const struct assignment *a, const int *want)
{
    for (int i = 0; i < a->workers; i++) {
        if (a->sizes[i] != want[i]) {
            fail_msg("worker %d gets %d instead of %d", i, a->sizes[i], want[i]);
        }
    }
}

#endif

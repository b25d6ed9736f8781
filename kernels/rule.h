/* Server rules: the update at a parameter server when a gradient arrives (kernels/rules has one
 * header for each). rule_apply computes on the host; a device may have the same for its own memory
 * (dev_rule_ops in kernels/device.h).
 */
#ifndef KERNELS_RULE_H
#define KERNELS_RULE_H

#include <stddef.h>
#include <stdint.h>

struct rule_state {       /* of one shard of n floats; arrays the rule does not use are NULL */
    float *w;             /* weights */
    float *v;             /* velocity */
    float *m2;            /* mean square (dc-asgd adaptive) */
    const uint8_t *decay; /* NULL, or 1 where weight decay applies */
    size_t n;
    const float *from; /* weights before the update, which stay as they are; NULL: w itself */
};
struct rule_args {
    const float *g;      /* gradient of this arrival */
    const float *pulled; /* version the worker pulled, or NULL */
    float lr;            /* eta of the epoch of the gradient's slice */
    float factor;        /* s * c_i: what the gradient is multiplied with before momentum */
    float momentum, weight_decay;
    float tau;        /* staleness at application */
    float p0, p1, p2; /* parameters of the rule, see its header */
};
/* Applies the rule of strategy `type` (CAT_STRATEGY_…) on the host, several threads allowed. */
void rule_apply(int strategy, struct rule_state *s, const struct rule_args *a);
/* Adds one gradient to the sum of a group (rules/collect.h); the group's update is rule_apply with
 * that sum and factor 1. */
void rule_gather(float *sum, const struct rule_state *s, const struct rule_args *a);

#endif

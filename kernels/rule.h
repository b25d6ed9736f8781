/* Server rules: a parameter server's update when a gradient arrives. Each rule is a header in
 * kernels/rules/. rule_apply computes on the host; a device may do the same in its own memory
 * (dev_rule_ops in kernels/device.h). Each strategy names its rule (server_policy in
 * worker/exchange/server/server.h).
 */
#ifndef KERNELS_RULE_H
#define KERNELS_RULE_H

#include <stddef.h>
#include <stdint.h>

enum rule {
    RULE_SGD,     /* a step of SGD with momentum: rules/sgd.h */
    RULE_DC_ASGD, /* compensates the gradient, then makes that step: rules/dc_asgd.h */
    RULE_TRUST,   /* weighs the last step and the gradient: rules/trust.h */
    RULES
};

struct rule_state {       /* of one shard of n floats; arrays the rule does not use are NULL */
    float *w;             /* weights */
    float *v;             /* velocity */
    float *m2;            /* mean square (dc-asgd adaptive) */
    const uint8_t *decay; /* NULL, or 1 where weight decay applies */
    size_t n;
    const float *from; /* weights before the update, which do not change; NULL: w itself */
};
struct rule_args {
    const float *g;      /* gradient of this arrival */
    const float *pulled; /* the version that the worker pulled, or NULL */
    float lr;            /* eta of the epoch of the gradient's slice */
    float factor;        /* s * c_i: the gradient's factor before momentum */
    float momentum, weight_decay;
    float tau;        /* staleness at application */
    float p0, p1, p2; /* parameters of the rule, see its header */
};
/* Runs on the host; several threads may call it, each for its own shard. */
void rule_apply(enum rule rule, struct rule_state *s, const struct rule_args *a);
/* Adds one gradient to the sum of a group (rules/collect.h); the group's update is rule_apply with
 * that sum and factor 1. */
void rule_gather(float *sum, const struct rule_state *s, const struct rule_args *a);

#endif

/* Server rules as loops over a shard: one line of the table per strategy that has one. The element's update stands in the
 * rule's own header (kernels/rules), so that the CUDA twin makes its kernel of the same text.
 *
 * The four loops of a rule differ in whether there is a velocity and a decay; the branches are constants inside each.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/rules/collect.h"
#include "kernels/rules/dc_asgd.h"
#include "kernels/rules/sgd.h"
#include "kernels/rules/trust.h"

typedef void rule_fn(struct rule_state *s, const struct rule_args *a);

CPU_CLONES static void sgd_plain(float *restrict w, const float *restrict g, const struct rule_args *a, size_t n)
{
    float lr = a->lr, factor = a->factor;
    for (size_t i = 0; i < n; i++) {
        rule_sgd(&w[i], NULL, g[i], 0, lr, factor, 0);
    }
}

CPU_CLONES static void sgd_decay(float *restrict w, const float *restrict g, const uint8_t *restrict decays,
                                 const struct rule_args *a, size_t n)
{
    float lr = a->lr, factor = a->factor, decay = a->weight_decay;
    for (size_t i = 0; i < n; i++) {
        rule_sgd(&w[i], NULL, g[i], decays[i] ? decay : 0, lr, factor, 0);
    }
}

CPU_CLONES static void sgd_velocity(float *restrict w, float *restrict v, const float *restrict g,
                                    const struct rule_args *a, size_t n)
{
    float lr = a->lr, factor = a->factor, momentum = a->momentum;
    for (size_t i = 0; i < n; i++) {
        rule_sgd(&w[i], &v[i], g[i], 0, lr, factor, momentum);
    }
}

CPU_CLONES static void sgd_velocity_decay(float *restrict w, float *restrict v, const float *restrict g,
                                          const uint8_t *restrict decays, const struct rule_args *a, size_t n)
{
    float lr = a->lr, factor = a->factor, momentum = a->momentum, decay = a->weight_decay;
    for (size_t i = 0; i < n; i++) {
        rule_sgd(&w[i], &v[i], g[i], decays[i] ? decay : 0, lr, factor, momentum);
    }
}

static void apply_sgd(struct rule_state *s, const struct rule_args *a)
{
    bool decay = s->decay && a->weight_decay != 0;
    if (s->v && decay) {
        sgd_velocity_decay(s->w, s->v, a->g, s->decay, a, s->n);
    } else if (s->v) {
        sgd_velocity(s->w, s->v, a->g, a, s->n);
    } else if (decay) {
        sgd_decay(s->w, a->g, s->decay, a, s->n);
    } else {
        sgd_plain(s->w, a->g, a, s->n);
    }
}

/* The compensated gradient, then the plain step. p0 lambda, p1 m, p2 eps. */
CPU_CLONES static void apply_dc_asgd(struct rule_state *s, const struct rule_args *a)
{
    for (size_t i = 0; i < s->n; i++) {
        float h = s->m2 ? rule_dc_adaptive(s->w[i], a->pulled[i], &s->m2[i], a->g[i], a->p0, a->p1, a->p2)
                        : rule_dc(s->w[i], a->pulled[i], a->g[i], a->p0);
        float decay = s->decay && s->decay[i] ? a->weight_decay : 0;
        rule_sgd(&s->w[i], s->v ? &s->v[i] : NULL, h, decay, a->lr, a->factor, a->momentum);
    }
}

/* p0 is what is kept of the step before, p1 what is taken of the gradient. */
CPU_CLONES static void apply_trust(struct rule_state *s, const struct rule_args *a)
{
    for (size_t i = 0; i < s->n; i++) {
        float decay = s->decay && s->decay[i] ? a->weight_decay : 0;
        rule_trust(&s->w[i], &s->v[i], a->g[i], decay, a->lr, a->factor, a->p0, a->p1);
    }
}

static rule_fn *const rules[CAT_COUNT] = {
    [CAT_STRATEGY_ASGD] = apply_sgd,           [CAT_STRATEGY_SOFTSYNC] = apply_sgd,   [CAT_STRATEGY_SSP] = apply_sgd,
    [CAT_STRATEGY_DBS_SGD] = apply_sgd,        [CAT_STRATEGY_DC_ASGD] = apply_dc_asgd, [CAT_STRATEGY_DC_ASGDK] = apply_trust,
    [CAT_STRATEGY_DDC_ASGD] = apply_trust,
};

void rule_apply(int strategy, struct rule_state *s, const struct rule_args *a)
{
    BUG_ON(strategy < 0 || strategy >= CAT_COUNT || !rules[strategy]);
    rules[strategy](s, a);
}

CPU_CLONES void rule_gather(float *sum, const struct rule_state *s, const struct rule_args *a)
{
    for (size_t i = 0; i < s->n; i++) {
        rule_collect(&sum[i], s->w[i], a->g[i], s->decay && s->decay[i] ? a->weight_decay : 0, a->factor);
    }
}

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

/* The compensated gradient, then the plain step. p0 lambda, p1 m, p2 eps. Eight loops of one text: an array that is not there is a constant
 * in each, without which none of them would be vectorised. */
static inline __attribute__((always_inline)) void dc_asgd(float *restrict w, float *restrict v, float *restrict m2,
                                                          const uint8_t *restrict decays, const struct rule_args *a, size_t n)
{
    const float *restrict g = a->g, *restrict pulled = a->pulled;
    float lr = a->lr, factor = a->factor, momentum = a->momentum, p0 = a->p0, p1 = a->p1, p2 = a->p2, decay = a->weight_decay;
    for (size_t i = 0; i < n; i++) {
        float h = m2 ? rule_dc_adaptive(w[i], pulled[i], &m2[i], g[i], p0, p1, p2) : rule_dc(w[i], pulled[i], g[i], p0);
        rule_sgd(&w[i], v ? &v[i] : NULL, h, decays && decays[i] ? decay : 0, lr, factor, momentum);
    }
}

#define DC_ASGD(name, v, m2, decay) \
    CPU_CLONES static void name(struct rule_state *s, const struct rule_args *a) \
    { \
        dc_asgd(s->w, v, m2, decay, a, s->n); \
    }
DC_ASGD(dc_plain, NULL, NULL, NULL)
DC_ASGD(dc_decay, NULL, NULL, s->decay)
DC_ASGD(dc_velocity, s->v, NULL, NULL)
DC_ASGD(dc_velocity_decay, s->v, NULL, s->decay)
DC_ASGD(dc_adaptive, NULL, s->m2, NULL)
DC_ASGD(dc_adaptive_decay, NULL, s->m2, s->decay)
DC_ASGD(dc_adaptive_velocity, s->v, s->m2, NULL)
DC_ASGD(dc_adaptive_velocity_decay, s->v, s->m2, s->decay)

static void apply_dc_asgd(struct rule_state *s, const struct rule_args *a)
{
    static rule_fn *const loops[2][2][2] = {{{dc_plain, dc_decay}, {dc_velocity, dc_velocity_decay}},
                                            {{dc_adaptive, dc_adaptive_decay}, {dc_adaptive_velocity, dc_adaptive_velocity_decay}}};
    loops[s->m2 != NULL][s->v != NULL][s->decay != NULL](s, a);
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

/* Server rules as loops over a shard, one line of the table per rule. The update of an element is
 * in the rule's own header (kernels/rules), from which the CUDA twin makes its kernel too.
 *
 * The loops of a rule differ in which arrays there are; the branches are constants inside each.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/rules/collect.h"
#include "kernels/rules/dc_asgd.h"
#include "kernels/rules/sgd.h"
#include "kernels/rules/trust.h"

typedef void rule_fn(struct rule_state *s, const struct rule_args *a);

static const float *before(const struct rule_state *s)
{
    return s->from ? s->from : s->w;
}

/* The gradient, compensated if `compensates` (p0 is lambda, p1 m, p2 eps), then the plain step. All
 * loops below expand this text. A missing array is a constant in each loop; otherwise the compiler
 * would vectorise none of them. */
static inline __attribute__((always_inline)) void sgd(const struct rule_state *s,
                                                      const struct rule_args *a, bool compensates,
                                                      float *restrict v, float *restrict m2,
                                                      const uint8_t *restrict decays)
{
    const float *restrict g = a->g, *restrict pulled = a->pulled, *from = before(s);
    float lr = a->lr, factor = a->factor, momentum = a->momentum, p0 = a->p0, p1 = a->p1,
          p2 = a->p2, decay = a->weight_decay, *to = s->w;
    CPU_ELEMENTWISE
    for (size_t i = 0; i < s->n; i++) {
        float w = from[i], h = g[i];
        if (compensates) {
            h = m2 ? rule_dc_adaptive(w, pulled[i], &m2[i], h, p0, p1, p2)
                   : rule_dc(w, pulled[i], h, p0);
        }
        rule_sgd(&w, v ? &v[i] : NULL, h, decays && decays[i] ? decay : 0, lr, factor, momentum);
        to[i] = w;
    }
}

#define LOOP(name, compensates, v, m2, decay)                                    \
    CPU_CLONES static void name(struct rule_state *s, const struct rule_args *a) \
    {                                                                            \
        sgd(s, a, compensates, v, m2, decay);                                    \
    }
LOOP(sgd_plain, false, NULL, NULL, NULL)
LOOP(sgd_decay, false, NULL, NULL, s->decay)
LOOP(sgd_velocity, false, s->v, NULL, NULL)
LOOP(sgd_velocity_decay, false, s->v, NULL, s->decay)
LOOP(dc_plain, true, NULL, NULL, NULL)
LOOP(dc_decay, true, NULL, NULL, s->decay)
LOOP(dc_velocity, true, s->v, NULL, NULL)
LOOP(dc_velocity_decay, true, s->v, NULL, s->decay)
LOOP(dc_adaptive, true, NULL, s->m2, NULL)
LOOP(dc_adaptive_decay, true, NULL, s->m2, s->decay)
LOOP(dc_adaptive_velocity, true, s->v, s->m2, NULL)
LOOP(dc_adaptive_velocity_decay, true, s->v, s->m2, s->decay)

static void apply_sgd(struct rule_state *s, const struct rule_args *a)
{
    static rule_fn *const loops[2][2] = {{sgd_plain, sgd_decay},
                                         {sgd_velocity, sgd_velocity_decay}};
    loops[s->v != NULL][s->decay && a->weight_decay != 0](s, a);
}

static void apply_dc_asgd(struct rule_state *s, const struct rule_args *a)
{
    static rule_fn *const loops[2][2][2] = {
        {{dc_plain, dc_decay}, {dc_velocity, dc_velocity_decay}},
        {{dc_adaptive, dc_adaptive_decay}, {dc_adaptive_velocity, dc_adaptive_velocity_decay}}};
    loops[s->m2 != NULL][s->v != NULL][s->decay != NULL](s, a);
}

/* p0: weight of the previous step; p1: of the gradient. */
CPU_CLONES static void apply_trust(struct rule_state *s, const struct rule_args *a)
{
    const float *from = before(s);
    CPU_ELEMENTWISE
    for (size_t i = 0; i < s->n; i++) {
        float w = from[i], decay = s->decay && s->decay[i] ? a->weight_decay : 0;
        rule_trust(&w, &s->v[i], a->g[i], decay, a->lr, a->factor, a->p0, a->p1);
        s->w[i] = w;
    }
}

static rule_fn *const rules[RULES] = {
    [RULE_SGD] = apply_sgd,
    [RULE_DC_ASGD] = apply_dc_asgd,
    [RULE_TRUST] = apply_trust,
};

void rule_apply(enum rule rule, struct rule_state *s, const struct rule_args *a)
{
    BUG_ON((unsigned)rule >= RULES);
    rules[rule](s, a);
}

CPU_CLONES void rule_gather(float *sum, const struct rule_state *s, const struct rule_args *a)
{
    for (size_t i = 0; i < s->n; i++) {
        rule_collect(&sum[i], s->w[i], a->g[i], s->decay && s->decay[i] ? a->weight_decay : 0,
                     a->factor);
    }
}

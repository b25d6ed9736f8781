/* Server rules as kernels, twin of cpu/rule.c: the update of an element is in the rule's own header
 * (kernels/rules), and this file makes one pass over a shard of it. All pointers are to memory of
 * the GPU, [n].
 *
 * Memory bandwidth is the limit: 16 bytes at once where all arrays are aligned so, else one float
 * at a time.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/rules/dc_asgd.h"
#include "kernels/rules/sgd.h"
#include "kernels/rules/trust.h"

/* Names of the kernels, in the order of enum rule. */
static const char *const names[] = {"apply_sgd", "apply_dc_asgd", "apply_trust"};
static_assert(sizeof(names) / sizeof(*names) == RULES, "apply_one() has each rule, and it a name");

DEVICE_FN void apply_one(enum rule rule, const struct rule_args &a, float *w, float *v, float *m2,
                         float g, float pulled, float decay)
{
    if (rule == RULE_TRUST) {
        rule_trust(w, v, g, decay, a.lr, a.factor, a.p0, a.p1);
        return;
    }
    if (rule == RULE_DC_ASGD) {
        g = m2 ? rule_dc_adaptive(*w, pulled, m2, g, a.p0, a.p1, a.p2)
               : rule_dc(*w, pulled, g, a.p0);
    }
    rule_sgd(w, v, g, decay, a.lr, a.factor, a.momentum);
}

template <int N> KERNEL apply(enum rule rule, struct rule_state s, struct rule_args a)
{
    typedef port_some<float, N> some;
    bool pulls = rule == RULE_DC_ASGD;
    for (size_t i = port_index(); i < s.n / N; i += port_stride()) {
        some w = ((const some *)(s.from ? s.from : s.w))[i], g = ((const some *)a.g)[i], v = {},
             m2 = {}, pulled = {};
        v = s.v ? ((some *)s.v)[i] : v;
        m2 = s.m2 ? ((some *)s.m2)[i] : m2;
        pulled = pulls ? ((const some *)a.pulled)[i] : pulled;
        for (int k = 0; k < N; k++) {
            float decay = s.decay && s.decay[i * N + k] ? a.weight_decay : 0;
            apply_one(rule, a, &w.v[k], s.v ? &v.v[k] : NULL, s.m2 ? &m2.v[k] : NULL, g.v[k],
                      pulled.v[k], decay);
        }
        ((some *)s.w)[i] = w;
        if (s.v) {
            ((some *)s.v)[i] = v;
        }
        if (s.m2) {
            ((some *)s.m2)[i] = m2;
        }
    }
}

static bool aligned(const struct rule_state *s, const struct rule_args *a)
{
    uintptr_t all = (uintptr_t)s->w | (uintptr_t)s->from | (uintptr_t)s->v | (uintptr_t)s->m2 |
                    (uintptr_t)a->g | (uintptr_t)a->pulled;
    return all % 16 == 0;
}

/* The shard starting at element `first`. */
static struct rule_state from(const struct rule_state *s, size_t first)
{
    return {s->w + first,
            s->v ? s->v + first : NULL,
            s->m2 ? s->m2 + first : NULL,
            s->decay ? s->decay + first : NULL,
            s->n - first,
            s->from ? s->from + first : NULL};
}

int cuda_rule(struct device *dev, enum rule rule, struct rule_state *s, const struct rule_args *a,
              struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    size_t whole = aligned(s, a) ? s->n / 4 * 4 : 0;
    size_t each =
        sizeof(float) * (3 + (s->v ? 2 : 0) + (s->m2 ? 2 : 0) + (rule == RULE_DC_ASGD ? 1 : 0)) +
        (s->decay ? 1 : 0);
    TRY(cuda_enter(d, e));
    if (whole > 0) {
        TRY(cuda_check(LAUNCH_AS(names[rule], apply<4>, cuda_blocks(d, whole / 4), whole * each,
                                 d->main, rule, *s, *a),
                       "apply a rule", e));
    }
    if (whole < s->n) {
        struct rule_args rest = *a;
        rest.g += whole;
        rest.pulled = a->pulled ? a->pulled + whole : NULL;
        TRY(cuda_check(LAUNCH_AS(names[rule], apply<1>, cuda_blocks(d, s->n - whole),
                                 (s->n - whole) * each, d->main, rule, from(s, whole), rest),
                       "apply a rule", e));
    }
    return cuda_check(cudaStreamSynchronize(d->main), "apply a rule", e);
}

/* Gradients into updates: see updates.h and docs/semantics.md#learning-rate-weights-and-momentum.
 *
 *   factor = s * c_i, then as the policy has it        s: 1/W or 1        c_i: W*n_i/B or 1
 *
 * Of a gradient that does not weigh its samples (a user's program counts tokens) n_i is its weight
 * in samples of the mean weight so far. One of weight 0 changes nothing but what momentum does.
 *
 *   one by one      w <- rule(w, g, factor)
 *   in groups of c  sum <- sum + factor*g   …   w <- rule(w, sum, 1)
 *
 * With `per_update` a group's factor has a 1/c, so that the sum is a mean.
 *
 * The learning rate is that of the epoch of each gradient's slice. Gradients of one group may
 * belong to two epochs: each is then scaled by the ratio of its own rate to that of the group's
 * first. */
#include "worker/exchange/server/updates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool keeps_velocity(const struct server_policy *policy, const struct jobspec *spec)
{
    return policy->own_velocity || spec->optimizer.momentum > 0;
}

static bool keeps_mean_square(const struct server_policy *policy, const struct jobspec *spec)
{
    return policy->mean_square && policy->mean_square(spec);
}

void server_footprint(const struct server_policy *policy, struct footprint *f)
{
    double state =
        (keeps_velocity(policy, f->spec) ? 1 : 0) + (keeps_mean_square(policy, f->spec) ? 1 : 0);
    footprint_add(f, "server: weights, gradient, evaluation", f->params, 3);
    footprint_add(f, "server: rule state and group", f->params, state + 1);
    footprint_add(f, "server: what each node has", f->params + f->stats, f->workers);
    if (f->spec->strategy.servers > 1) {
        footprint_add(f, "server: states collected", f->params, 1 + state);
    }
}

/* A version for each worker, one for an evaluation, and the next. */
static bool make_versions(struct updates *u)
{
    u->n_versions = u->env->comm->workers + 2;
    u->versions = calloc((size_t)u->n_versions, sizeof *u->versions);
    u->spare = calloc((size_t)u->n_versions, sizeof *u->spare);
    bool ok = u->versions && u->spare;
    for (int i = 0; ok && i < u->n_versions; i++) {
        u->versions[i].w = aligned_alloc(64, (u->n * sizeof(float) + 127) / 64 * 64);
        u->spare[u->n_spare++] = &u->versions[i];
        ok = u->versions[i].w != NULL;
    }
    return ok;
}

/* Room for n floats, if they are needed. false: memory ran out. */
static bool make_room(float **out, bool needed, size_t n)
{
    *out = needed ? calloc(n, sizeof(float)) : NULL;
    return *out || !needed;
}

/* Takes the optimizer's state, of `blocks` blocks, if the run has one of this kind. */
static void take_optim(struct updates *u, const struct run_state *from, size_t first, size_t blocks)
{
    size_t all = u->env->n_params, n = u->n;
    bool fits = u->optim && from->optim && from->n_optim == blocks * all;
    for (size_t b = 0; fits && b < blocks; b++) {
        memcpy(u->optim + b * n, from->optim + b * all + first, n * sizeof(float));
    }
}

int updates_init(struct updates *u, const struct server_policy *policy, const struct rank_env *env,
                 size_t first, size_t n, const struct run_state *from, struct err *e)
{
    bool v = keeps_velocity(policy, env->spec), m2 = keeps_mean_square(policy, env->spec);
    size_t blocks = (size_t)v + (size_t)m2;
    memset(u, 0, sizeof *u);
    u->policy = policy;
    u->env = env;
    u->n = n;
    u->n_optim = n * blocks;
    u->group = policy->group ? policy->group(env) : 1;
    u->version = from->version;
    u->stretch = NAN;
    bool samples = policy->compensates && u->group == 1;
    if (!make_versions(u) || !make_room(&u->optim, u->n_optim > 0, u->n_optim) ||
        !make_room(&u->sum, u->group > 1, n + 1) ||
        !make_room(&u->before, samples, UPDATES_SAMPLE)) {
        return err_set(e, ERR_MEMORY, "cannot serve %zu parameters: memory ran out", n);
    }
    u->now = u->spare[--u->n_spare];
    memcpy(u->now->w, from->params + first, n * sizeof(float));
    take_optim(u, from, first, blocks);
    u->rule = (struct rule_state){.w = u->now->w,
                                  .v = v ? u->optim : NULL,
                                  .m2 = m2 ? u->optim + (v ? n : 0) : NULL,
                                  .decay = env->decay + first,
                                  .n = n};
    return 0;
}

void updates_release(struct updates *u)
{
    for (int i = 0; u->versions && i < u->n_versions; i++) {
        free(u->versions[i].w);
    }
    free(u->versions);
    free(u->spare);
    free(u->optim);
    free(u->sum);
    free(u->before);
}

/* ---- versions -------------------------------------------------------------------------------- */

void updates_hold(struct updates *u, struct version **holder, struct version *v)
{
    struct version *old = *holder;
    v->holders++; /* counted first, since v may be the old one */
    *holder = v;
    if (old && --old->holders == 0 && old != u->now) {
        u->spare[u->n_spare++] = old;
    }
}

/* Makes the next version by the rule, in place if no rank holds the newest one. */
static void make_version(struct updates *u, const struct rule_args *args)
{
    struct version *old = u->now;
    if (old->holders > 0) {
        BUG_ON(u->n_spare == 0);
        u->now = u->spare[--u->n_spare];
    }
    u->rule.from = old->w;
    u->rule.w = u->now->w;
    rule_apply(u->policy->rule, &u->rule, args);
    u->version++;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Converts a weight to samples. Where every gradient weighs its samples, it stays the same. */
static double in_samples(struct updates *u, double weight, int64_t samples)
{
    u->weights += weight;
    u->samples += weight > 0 ? (double)samples : 0;
    return u->weights > 0 ? weight * (u->samples / u->weights) : 0;
}

static double factor_of(const struct updates *u, double count, int64_t tau)
{
    const struct jobspec *spec = u->env->spec;
    double W = strategy_workers(u->env);
    double c = spec->strategy.weighting == WEIGHT_SAMPLE ? W * count / spec->batching.global_batch
                                                         : count > 0;
    double factor = spec->strategy.scale == SCALE_GLOBAL ? c / W : c / u->group;
    return u->policy->factor ? u->policy->factor(spec, factor, tau) : factor;
}

static void apply_group(struct updates *u)
{
    struct rule_args args = {.g = u->sum,
                             .lr = u->group_rate,
                             .factor = 1,
                             .momentum = (float)u->env->spec->optimizer.momentum};
    make_version(u, &args);
    memset(u->sum, 0, u->n * sizeof(float));
    u->collected = 0;
}

static size_t sampled(const struct updates *u, size_t i)
{
    return i * u->n / UPDATES_SAMPLE;
}

/* How much the rule changed a gradient: |w after - w before| over lr * factor * |g|. */
static float stretch_of(const struct updates *u, const struct rule_args *a)
{
    double moved = 0, plain = 0;
    for (size_t i = 0; i < UPDATES_SAMPLE && u->n > 0; i++) {
        size_t at = sampled(u, i);
        double d = (double)u->now->w[at] - u->before[i], g = (double)a->lr * a->factor * a->g[at];
        moved += d * d;
        plain += g * g;
    }
    return plain > 0 ? (float)sqrt(moved / plain) : NAN;
}

/* One update by one gradient. */
static void apply_one(struct updates *u, const struct rule_args *args)
{
    for (size_t i = 0; u->before && i < UPDATES_SAMPLE && u->n > 0; i++) {
        u->before[i] = u->now->w[sampled(u, i)];
    }
    make_version(u, args);
    u->stretch = u->before ? stretch_of(u, args) : NAN;
}

bool updates_add(struct updates *u, const float *g, const float *pulled, double weight,
                 int64_t samples, double rate, int64_t tau)
{
    const struct optimizer_spec *o = &u->env->spec->optimizer;
    double factor = factor_of(u, in_samples(u, weight, samples), tau);
    struct rule_args args = {.g = g,
                             .pulled = pulled,
                             .lr = (float)rate,
                             .factor = (float)factor,
                             .momentum = (float)o->momentum,
                             .weight_decay = (float)o->weight_decay,
                             .tau = (float)tau};
    if (u->group == 1) {
        if (u->policy->parameters) {
            u->policy->parameters(u->env, &args);
        }
        apply_one(u, &args);
        return true;
    }
    if (u->collected++ == 0) {
        u->group_rate = (float)rate;
    } else if (u->group_rate != args.lr && u->group_rate > 0) {
        args.factor = (float)(factor * rate / u->group_rate);
    }
    rule_gather(u->sum, &u->rule, &args);
    if (u->collected < u->group) {
        return false;
    }
    apply_group(u);
    return true;
}

bool updates_regroup(struct updates *u)
{
    int group = u->policy->group ? u->policy->group(u->env) : 1;
    bool whole = u->collected > 0 && u->collected >= group;
    if (whole) {
        apply_group(u);
    }
    u->group = group;
    return whole;
}

bool updates_flush(struct updates *u)
{
    if (u->collected == 0) {
        return false;
    }
    apply_group(u);
    return true;
}

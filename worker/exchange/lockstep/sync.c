/* Strategy `sync`: the sample-weighted mean gradient over all workers at every step, one update,
 * the same on every rank.
 *
 *      rank 0   ▇▇▇▇▇▇▇▇ compute 93 ┐ buckets, last layers first, leave while the rest is computed
 *      rank 1   ▇▇▇▇▇▇▇▇ compute 93 ├─► sum over ranks of (n_i / n) g_i ─► w <- update(w)
 *      rank 2   ▇▇▇▇▇▇▇▇ compute 46 ┘                            n = samples of this step
 *
 * Whatever the minibatches, an update equals that of a single worker with the whole batch
 * (docs/semantics.md#learning-rate-weights-and-momentum). Words travel with the gradients: rank 0
 * alone reads the store and contributes the assignment and requests; each rank contributes its
 * loss, its time and whether it is not ready for a new minibatch. All ranks see the same sums and
 * so agree without a collective of their own (docs/semantics.md#agreement): an assignment announced
 * in step s is used from s+2 on, or later while any rank is not ready.
 *
 * survival/step_sum.h handles workers that die and programs that end in the middle of a step. The
 * keeper (rank W) takes no part in steps: rank 0 sends it states, and it writes them. */
#include <stdlib.h>

#include "worker/exchange/lockstep/survival/step_sum.h"

struct sync {
    struct strategy base;
    struct lockstep l;   /* steps, and each rank's part of them */
    struct step_sum sum; /* of gradients and words */
};

static void release(struct strategy *base)
{
    struct sync *s = (struct sync *)base;
    step_sum_close(&s->sum);
    lockstep_release(&s->l);
    free(s);
}

static struct strategy *start(struct rank_env *env, const struct run_state *state, struct err *e)
{
    struct sync *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        return NULL;
    }
    s->base.ops = &strategy_SYNC;
    lockstep_init(&s->l, env, state);
    if (step_sum_open(&s->sum, &s->l, e) < 0) {
        release(&s->base);
        return NULL;
    }
    return &s->base;
}

static int next(struct strategy *base, struct work *out, struct err *e)
{
    struct lockstep *l = &((struct sync *)base)->l;
    if (lockstep_leaves(l, out) || lockstep_evaluates(l, out)) {
        return 0;
    }
    int rc = lockstep_checkpoint(l, NULL, 0, e);
    if (rc >= 0) {
        lockstep_train(l, out);
    }
    return rc;
}

static void on_bucket(struct strategy *base, const struct work *w, const struct dev_bucket *b,
                      int index, int n_buckets)
{
    step_sum_add(&((struct sync *)base)->sum, w, b, index, n_buckets, &base->failed);
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct sync *s = (struct sync *)base;
    int rc = step_sum_make(&s->sum, w, r, compute_s, e);
    if (rc == STEP_SUM_MADE) {
        struct row row = step_sum_row(&s->sum, w);
        s->l.env->row(s->l.env->ctx, &row);
    }
    base->once_more = rc == STEP_SUM_FURTHER;
    return rc < 0 ? rc : 0;
}

static int on_further(struct strategy *base, const struct work *w, struct err *e)
{
    return step_sum_make_further(&((struct sync *)base)->sum, w, e);
}

static int any(struct strategy *base, bool mine, struct err *e)
{
    return step_sum_any(&((struct sync *)base)->sum, mine, e);
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    return step_sum_evaluate(&((struct sync *)base)->sum, w, r, e);
}

static int finish(struct strategy *base, struct err *e)
{
    return step_sum_finish(&((struct sync *)base)->sum, e);
}

static const struct program_part program = {.step = STEP_BY_PROGRAM_ON_SUM};

const struct strategy_ops strategy_SYNC = {
    .id = CAT_STRATEGY_SYNC,
    .program = &program,
    .alone = gradients_are_alone,
    .start = start,
    .next = next,
    .on_bucket = on_bucket,
    .on_gradients = on_gradients,
    .on_further = on_further,
    .any = any,
    .on_evaluated = on_evaluated,
    .finish = finish,
    .free = release,
    .serve = lockstep_serve,
    .footprint = gradients_footprint,
};

/* Strategy `sync`: the sample-weighted mean gradient over all workers at every step, one update,
 * the same on every rank.
 *
 *      rank 0   ▇▇▇▇▇▇▇▇ compute 93 ┐ buckets, last layers first, leave while the rest is computed
 *      rank 1   ▇▇▇▇▇▇▇▇ compute 93 ├─► sum over ranks of (n_i / n) g_i ─► w <- update(w)
 *      rank 2   ▇▇▇▇▇▇▇▇ compute 46 ┘                            n = samples of this step
 *
 * Whatever the minibatches, an update equals the one a single worker with the whole batch would
 * make (SEMANTICS.md 1, 3). Words travel with the gradients: rank 0 alone reads the store and
 * contributes the assignment and requests; each rank contributes its loss, its time and whether it
 * is not ready for a new minibatch. All ranks see the same sums and so agree without a collective
 * of their own (SEMANTICS.md 7): an assignment announced in step s is used from s+2 on, or later
 * while any rank is not ready.
 *
 * A rank whose user's program has ended joins the sums late (absence.h). A worker that dies leaves
 * them, and the step is made or summed again by those who are left (survival.h).
 *
 * The keeper (rank W) takes no part in steps: rank 0 sends it states, and it writes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/lockstep/absence.h"
#include "worker/exchange/lockstep/equal.h"
#include "worker/exchange/lockstep/survival.h"
#include "worker/exchange/lockstep/weights.h"

struct sync {
    struct strategy base;
    struct lockstep l;
    struct gradients *gradients;
    struct absence absence;
    struct survival *survival; /* NULL: a lost worker ends the run */
    struct weighing weighing;  /* of the sum under way */
    struct equal equal;
};

static void release(struct strategy *base)
{
    struct sync *s = (struct sync *)base;
    survival_free(s->survival);
    gradients_free(s->gradients);
    equal_release(&s->equal);
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
    s->gradients = gradients_new(env, lockstep_words(&s->l), e);
    if (!s->gradients || equal_init(&s->equal, &s->l, e) < 0 ||
        (survival_is_possible(env) && !(s->survival = survival_new(&s->l, s->gradients, e)))) {
        release(&s->base);
        return NULL;
    }
    if (env->weighed) {
        s->weighing.l = &s->l;
        gradients_set_judge(s->gradients, weighing_judge, &s->weighing);
    }
    if (env->resume && env->comm->workers > 1) {
        s->absence =
            (struct absence){.l = &s->l, .gradients = s->gradients, .share = lockstep_factor};
        gradients_set_late(s->gradients, absence_end, &s->absence);
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
    struct sync *s = (struct sync *)base;
    gradients_add(s->gradients, b, index, n_buckets, lockstep_factor(&s->l, w), &base->failed);
}

/* A rank's own exchange time is what remains after the slowest rank's gradients have arrived.
 */
static void report(struct sync *s, const struct work *w, const float *words, double compute_s,
                   double ready)
{
    const struct lockstep *l = &s->l;
    struct rank_env *env = l->env;
    struct row row = lockstep_row(l, w, NULL, compute_s, ready);
    float wait = lockstep_slowest(l, words) - words[WORDS + env->comm->workers + row.rank];
    row.wait_seconds = wait < 0 ? 0 : wait > row.exchange_seconds ? row.exchange_seconds : wait;
    row.exchange_seconds -= row.wait_seconds;
    row.loss = words[WORD_LOSS] / (float)l->slice.count;
    row.accuracy = strategy_accuracy((double)words[WORD_CORRECT], (double)l->slice.count);
    row.bytes = gradients_bytes(s->gradients);
    env->row(env->ctx, &row);
}

/* Sums gradients and words, and updates. */
static int sum(struct sync *s, const struct work *w, const struct dev_result *r, double ready,
               const float **sums, struct err *e)
{
    struct lockstep *l = &s->l;
    float *words = gradients_words(s->gradients);
    lockstep_write(l, words, r->absent ? ABSENCE_TIME : ready - l->began, 1);
    weighing_begin(&s->weighing, w, words);
    weighing_leave(&s->weighing, r, words);
    words[WORD_LOSS] = (float)r->loss;
    words[WORD_CORRECT] = (float)r->correct;
    survival_watch(s->survival, true);
    int rc = gradients_update(s->gradients, w, r->absent ? 0 : lockstep_share(l), sums, e);
    survival_watch(s->survival, false);
    return rc < 0 ? absence_failed(&s->absence, rc, e) : 0;
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct lockstep *l = &s->l;
    double ready = comm_now(l->env->comm);
    const struct survival_step step = {w, compute_s, ready};
    const float *sums;
    int rc;
    s->absence.work = *w;
    s->absence.result = *r;
    s->absence.compute_s = compute_s;
    while ((rc = sum(s, w, r, ready, &sums, e)) < 0) {
        rc = survival_recover(s->survival, rc, &step, e);
        if (rc != RECOVERED_ONCE_MORE) {
            return rc;
        }
        if ((rc = gradients_add_again(s->gradients, lockstep_factor(l, w), e)) < 0) {
            return rc;
        }
    }
    if ((rc = weighing_check(&s->weighing, w, sums, e)) < 0 ||
        (rc = weighing_left(&s->weighing, sums, e)) < 0) {
        return rc;
    }
    if (rc == WEIGHING_ALL_LEFT) {
        l->at.left = true;
        return 0;
    }
    if (!isfinite(sums[WORD_LOSS]) && !(l->env->weighed && isnan(sums[WORD_LOSS]))) {
        return err_set(e, ERR_DATA, "the loss became NaN or infinite at step %lld",
                       (long long)(l->at.step + 1));
    }
    lockstep_done(l);
    lockstep_agree(l, sums);
    survival_note(s->survival, sums);
    report(s, w, sums, s->absence.compute_s, ready);
    return 0;
}

static int on_further(struct strategy *base, const struct work *w, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct lockstep *l = &s->l;
    float *words = gradients_words(s->gradients);
    const float *sums;
    int rc;
    memset(words, 0, lockstep_words(l) * sizeof(float)); /* nothing is agreed */
    weighing_begin(&s->weighing, w, words);
    survival_watch(s->survival, true); /* a worker that is lost here ends the run */
    rc = gradients_update(s->gradients, w, l->done_share, &sums, e);
    survival_watch(s->survival, false);
    if (rc < 0) {
        return rc;
    }
    return weighing_check(&s->weighing, w, sums, e);
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    struct sync *s = (struct sync *)base;
    int rc;
    while ((rc = lockstep_evaluated(&s->l, w, r, e)) < 0) {
        rc = survival_recover(s->survival, rc, NULL, e);
        if (rc != RECOVERED_ONCE_MORE) {
            equal_pass_over(&s->equal);
            return rc;
        }
    }
    return equal_check(&s->equal, e);
}

static int finish(struct strategy *base, struct err *e)
{
    struct sync *s = (struct sync *)base;
    return s->survival ? survival_finish(s->survival, NULL, 0, e)
                       : lockstep_finish(&s->l, NULL, 0, e);
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
    .on_evaluated = on_evaluated,
    .finish = finish,
    .free = release,
    .serve = lockstep_serve,
    .footprint = gradients_footprint,
};

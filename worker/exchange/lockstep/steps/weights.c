/* Weights of gradients in sums; see weights.h. */
#include "worker/exchange/lockstep/steps/weights.h"

#include "common/log.h"

const float *lockstep_weighed(const struct lockstep *l, const float *words)
{
    return words + lockstep_words(l) - WEIGHED_WORDS;
}

void lockstep_weigh(const struct lockstep *l, float *words, double weight, bool voided,
                    bool further)
{
    if (l->env->program.weighed) {
        float *mine = words + lockstep_words(l) - WEIGHED_WORDS;
        mine[WORD_WEIGHT] = (float)weight;
        mine[WORD_VOIDED] = voided;
        mine[WORD_FURTHER] = further;
    }
}

bool lockstep_is_further(const struct lockstep *l, const float *words)
{
    return l->env->program.weighed && lockstep_weighed(l, words)[WORD_FURTHER] > 0;
}

double lockstep_correct(const struct lockstep *l, const float *words, double planned)
{
    if (!l->env->program.weighed) {
        return 1;
    }
    double weight = lockstep_weighed(l, words)[WORD_WEIGHT];
    return weight > 0 ? planned / weight : 0;
}

/* Samples of the step to which a gradient belongs. */
static double planned(const struct lockstep *l, bool further)
{
    return (double)(further ? l->done_count : l->slice.count);
}

double lockstep_factor(const struct lockstep *l, const struct work *w)
{
    return l->env->program.sums ? w->weight : w->weight / planned(l, w->further);
}

/* ---- one sum --------------------------------------------------------------------------------- */

void weighing_begin(struct weighing *g, const struct work *w, float *words)
{
    if (g->l) {
        lockstep_weigh(g->l, words, w->weight, w->voided, w->further);
        g->step = g->l->at.step + 1;
    }
}

void weighing_leave(struct weighing *g, const struct dev_result *r, float *words)
{
    g->left = r->leaves;
    g->anew = g->equal && r->anew;
    if (g->l) {
        float *mine = words + lockstep_words(g->l) - WEIGHED_WORDS;
        mine[WORD_LEFT] = r->leaves;
        mine[WORD_WHO] = (float)(r->leaves ? g->l->env->comm->rank + 1 : 0);
        mine[WORD_THERE] = !r->leaves && !r->absent && !g->anew;
    }
}

int weighing_left(const struct weighing *g, const float *sums, struct err *e)
{
    int left = g->l ? (int)lockstep_weighed(g->l, sums)[WORD_LEFT] : 0;
    int there = left > 0 ? (int)lockstep_weighed(g->l, sums)[WORD_THERE] : 0;
    if (there == 0) {
        if (left > 0 && g->anew && !g->left) {
            lockstep_tell_anew(g->l);
        }
        return left > 0 ? WEIGHING_ALL_LEFT : WEIGHING_GOES_ON;
    }
    const struct left l = {left, there, lockstep_weighed(g->l, sums)[WORD_WHO], g->left};
    return lockstep_say_left(g->l, &l, "before step", g->step, "steps", e);
}

bool weighing_judge(void *ctx, const float *sums, double *scale)
{
    const struct weighing *g = ctx;
    const struct lockstep *l = g->l;
    const float *words = lockstep_weighed(l, sums);
    bool voided = words[WORD_VOIDED] > 0, first = lockstep_is_first(l),
         further = lockstep_is_further(l, sums);
    long long step = (long long)l->at.step + !further;
    if (!l->env->program.sums) {
        *scale = lockstep_correct(l, sums, planned(l, further));
    }
    if (words[WORD_LEFT] > 0) {
        return false; /* weighing_left() decides what follows */
    }
    if (first && voided) {
        log_warn("sync",
                 "no node makes this step: a backward pass failed, or the next slice was begun "
                 "before this one's gradients were given",
                 "step=%lld nodes=%g", step, words[WORD_VOIDED]);
    } else if (first && words[WORD_WEIGHT] <= 0) {
        log_warn("sync", "all gradients weigh 0: the step's are zero", "step=%lld", step);
    }
    return !voided;
}

int weighing_check(const struct weighing *g, const struct work *w, const float *sums, struct err *e)
{
    if (!g->l) {
        return 0;
    }
    int n = (int)lockstep_weighed(g->l, sums)[WORD_FURTHER],
        W = g->l->env->comm->n_members[COMM_ALL];
    if (n == (w->further ? W : 0)) {
        return 0;
    }
    err_set(e, ERR_DATA,
            "%d of %d nodes made one more backward pass in step %lld, and the others none", n, W,
            (long long)g->l->at.step);
    return lockstep_passes_differ(e);
}

int weighing_failed(const struct weighing *g, const struct work *w, int rc, struct err *e)
{
    if (!g->l || rc != -ERR_CONFLICT) {
        return rc;
    }
    if (!w->further) {
        return lockstep_sum_failed(g->l, rc, e);
    }
    const struct comm *c = g->l->env->comm;
    err_set(e, ERR_DATA,
            "at least 1 of %d nodes made one more backward pass in step %lld, and not all of them: "
            "rank %d's did, and another one goes on",
            c->n_members[COMM_ALL], (long long)g->l->at.step, c->rank);
    return lockstep_passes_differ(e);
}

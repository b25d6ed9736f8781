/* Evaluations in common: see lockstep.h. */
#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/absence.h"

/* By speed. */
static void test_part(const struct lockstep *l, struct work *out)
{
    const struct rank_env *env = l->env;
    const int *members = env->comm->members[COMM_ALL];
    int n_members = env->comm->n_members[COMM_ALL];
    double sum = 0, before = 0;
    for (int i = 0; i < n_members; i++) {
        double v = env->speeds[members[i]] > 0 ? env->speeds[members[i]] : 1;
        before += members[i] < env->comm->rank ? v : 0;
        sum += v;
    }
    double mine = env->speeds[env->comm->rank] > 0 ? env->speeds[env->comm->rank] : 1;
    int64_t n = env->test_samples, a = (int64_t)((double)n * before / sum + 0.5),
            b = (int64_t)((double)n * (before + mine) / sum + 0.5);
    out->action = DO_EVALUATE;
    out->eval_first = a;
    out->eval_count = (env->comm->place[COMM_ALL] == n_members - 1 ? n : b) - a;
    out->batch = l->sizes[env->comm->rank];
}

bool lockstep_evaluates(const struct lockstep *l, struct work *out)
{
    bool due = l->at.evaluate || (lockstep_over(l) && !l->at.evaluated_here);
    if (!due || l->env->test_samples <= 0) {
        return false;
    }
    test_part(l, out);
    return true;
}

/* Agrees whether open programs go on or all leave. Of a program that has ended meanwhile this is
 * not known. */
static int agree_to_leave(struct lockstep *l, const struct dev_result *mine, struct err *e)
{
    const struct left left = {(int)l->sum_words[3], (int)l->sum_words[4], l->sum_words[5],
                              mine->leaves};
    if (l->at.left) { /* it was before the step that is left out */
        return 0;
    }
    if (left.n > 0 && left.there > 0) {
        return lockstep_say_left(l, &left, "after epoch", l->at.cursor.epoch, "epochs", e);
    }
    if (left.n > 0 && mine->anew && !mine->leaves) {
        lockstep_tell_anew(l);
    }
    l->at.left = left.n > 0;
    return 0;
}

/* Makes sure that the first rank has a state: the evaluation may be the best so far, which the
 * first rank saves, and its program may have ended. */
static int provide(struct lockstep *l, struct err *e)
{
    struct own_state own = {0};
    int n = l->env->comm->n_members[COMM_ALL];
    float there = l->sum_words[3] + l->sum_words[4] + l->sum_words[6];
    int rc = (float)n > there ? absence_provide(l, &own, e) : 0;
    own_state_release(&own);
    return rc;
}

int lockstep_evaluated(struct lockstep *l, const struct work *w, const struct dev_result *r,
                       struct err *e)
{
    struct rank_env *env = l->env;
    l->sum_words[0] = (float)r->loss;
    l->sum_words[1] = (float)r->correct;
    l->sum_words[2] = (float)w->eval_count;
    bool copies = lockstep_has_copies(l), there = !r->leaves && !r->absent,
         anew = there && copies && r->anew;
    l->sum_words[3] = r->leaves;
    l->sum_words[4] = there && !anew;
    l->sum_words[5] = (float)(r->leaves ? env->comm->rank + 1 : 0);
    l->sum_words[6] = anew;
    int rc = lockstep_sum(l, l->sum_words, env->program.open || copies ? 7 : 3, e);
    if (rc < 0 || (copies && (rc = provide(l, e)) < 0) ||
        (env->program.open && (rc = agree_to_leave(l, r, e)) < 0)) {
        return rc;
    }
    double n = l->sum_words[2];
    return lockstep_take_evaluation(l, l->sum_words[0] / n, strategy_accuracy(l->sum_words[1], n),
                                    (int64_t)n, e);
}

void lockstep_note_measured(struct lockstep *l, const struct dev_result *r)
{
    l->measured = l->measured || r->measured;
}

int lockstep_take_evaluation(struct lockstep *l, double loss, double accuracy, int64_t samples,
                             struct err *e)
{
    struct rank_env *env = l->env;
    l->at.evaluate = l->measured = false;
    l->at.evaluated_here = true;
    l->at.last_samples = samples;
    if (samples <= 0) {
        return 0; /* a user's program has measured nothing */
    }
    l->at.last_loss = loss;
    l->at.last_accuracy = accuracy;
    l->at.target_reached =
        l->at.target_reached ||
        (env->spec->target_accuracy > 0 && l->at.last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {.step = l->at.step,
                            .epoch = (double)l->at.applied / (double)env->train_samples,
                            .time = comm_now(env->comm) - env->job_start,
                            .loss = l->at.last_loss,
                            .accuracy = l->at.last_accuracy,
                            .samples = samples,
                            .final = lockstep_over(l)};
    if (lockstep_is_first(l)) {
        env->evaluated(env->ctx, &ev);
    }
    double score = strategy_score(l->at.last_accuracy, l->at.last_loss);
    if (score > l->best) {
        l->best = score;
        return lockstep_send_state(l, NULL, 0, SAVE_BEST, RUN_GOES_ON, e);
    }
    return 0;
}

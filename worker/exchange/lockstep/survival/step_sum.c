/* See step_sum.h. */
#include "worker/exchange/lockstep/survival/step_sum.h"

#include <math.h>
#include <string.h>

int step_sum_open(struct step_sum *s, struct lockstep *l, struct err *e)
{
    const struct rank_env *env = l->env;
    s->l = l;
    if (equal_init(&s->equal, l, e) < 0 ||
        !(s->gradients = gradients_new(l->env, lockstep_words(l), e)) ||
        (survival_is_possible(env) && !(s->survival = survival_new(l, s->gradients, e)))) {
        return -(int)e->code;
    }
    if (env->program.weighed) {
        s->weighing.l = l;
        s->weighing.equal = true;
        gradients_set_judge(s->gradients, weighing_judge, &s->weighing);
    }
    if (env->resume && env->comm->workers > 1) {
        s->absence = (struct absence){.l = l, .gradients = s->gradients, .share = lockstep_factor};
        gradients_set_late(s->gradients, absence_end, &s->absence);
    }
    return 0;
}

void step_sum_close(struct step_sum *s)
{
    equal_release(&s->equal);
    survival_free(s->survival);
    gradients_free(s->gradients);
}

void step_sum_add(struct step_sum *s, const struct work *w, const struct dev_bucket *b, int index,
                  int n_buckets, struct err *e)
{
    gradients_add(s->gradients, b, index, n_buckets, lockstep_factor(s->l, w), e);
}

/* Completes the sums of gradients and words, and updates. `share` is the weight of this rank's
 * statistics. */
static int update(struct step_sum *s, const struct work *w, double share, struct err *e)
{
    survival_watch(s->survival, true);
    int rc = gradients_update(s->gradients, w, share, &s->words, e);
    survival_watch(s->survival, false);
    rc = weighing_failed(&s->weighing, w, rc, e);
    return rc < 0 ? absence_failed(&s->absence, rc, e) : 0;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static int sum_once(struct step_sum *s, const struct work *w, const struct dev_result *r,
                    struct err *e)
{
    struct lockstep *l = s->l;
    float *words = gradients_words(s->gradients);
    lockstep_write(l, words, r->absent ? ABSENCE_TIME : s->ready - l->began, 1);
    weighing_begin(&s->weighing, w, words);
    weighing_leave(&s->weighing, r, words);
    words[WORD_LOSS] = (float)r->loss;
    words[WORD_CORRECT] = (float)r->correct;
    return update(s, w, r->absent ? 0 : lockstep_share(l), e);
}

/* within_step: a new first worker may have to send the keeper the best state meanwhile, in the
 * middle of this step. */
static int recover(struct step_sum *s, int rc, const struct survival_step *step, bool there,
                   struct err *e)
{
    s->l->within_step = there && gradients_keeps_sums(s->gradients);
    rc = survival_recover(s->survival, rc, step, e);
    s->l->within_step = false;
    return rc;
}

/* Repeats the sum until it is complete, or the keeper decides otherwise. */
static int sum(struct step_sum *s, const struct work *w, const struct dev_result *r,
               double compute_s, struct err *e)
{
    const struct survival_step step = {w, compute_s, s->ready};
    struct lockstep *l = s->l;
    int rc;
    while ((rc = sum_once(s, w, r, e)) < 0) {
        if ((rc = recover(s, rc, &step, !r->absent, e)) < 0) {
            return rc;
        }
        if (rc == RECOVERED) {
            return STEP_SUM_RECOVERED;
        }
        s->absence.result.given = 0; /* no bucket was sent now: an absent rank adds all of them */
        if ((rc = gradients_add_again(s->gradients, lockstep_factor(l, w), e)) < 0) {
            return rc;
        }
    }
    l->at.further = l->at.further || s->absence.was_further;
    if (s->absence.was_further) {
        survival_note_further(s->survival);
        return STEP_SUM_FURTHER;
    }
    return STEP_SUM_MADE;
}

/* Is it the sum of a step? The words tell. */
static int check(struct step_sum *s, const struct work *w, struct err *e)
{
    const struct lockstep *l = s->l;
    float loss = s->words[WORD_LOSS];
    int rc;
    if ((rc = weighing_check(&s->weighing, w, s->words, e)) < 0 ||
        (rc = weighing_left(&s->weighing, s->words, e)) < 0) {
        return rc;
    }
    if (rc == WEIGHING_ALL_LEFT) {
        return STEP_SUM_ALL_LEFT;
    }
    if (!isfinite(loss) && !(l->env->program.weighed && isnan(loss))) {
        return err_set(e, ERR_NOT_FINITE, "the loss became NaN or infinite at step %lld",
                       (long long)(l->at.step + 1));
    }
    return STEP_SUM_MADE;
}

int step_sum_make(struct step_sum *s, const struct work *w, const struct dev_result *r,
                  double compute_s, struct err *e)
{
    struct lockstep *l = s->l;
    s->ready = comm_now(l->env->comm);
    lockstep_note_measured(l, r);
    s->absence.work = *w;
    s->absence.result = *r;
    s->absence.compute_s = compute_s;
    int rc = sum(s, w, r, compute_s, e);
    if (rc != STEP_SUM_MADE) {
        return rc;
    }
    s->compute_s = s->absence.compute_s;
    if ((rc = check(s, w, e)) == STEP_SUM_MADE) {
        lockstep_done(l);
        survival_note(s->survival, s->words);
        lockstep_agree(l, s->words);
    }
    l->at.left = l->at.left || rc == STEP_SUM_ALL_LEFT;
    return rc;
}

struct row step_sum_row(const struct step_sum *s, const struct work *w)
{
    const struct lockstep *l = s->l;
    const struct comm *c = l->env->comm;
    struct row row = lockstep_row(l, w, NULL, s->compute_s, s->ready);
    float wait = lockstep_slowest(l, s->words) - s->words[WORDS + c->workers + c->rank];
    row.wait_seconds = wait < 0 ? 0 : wait > row.exchange_seconds ? row.exchange_seconds : wait;
    row.exchange_seconds -= row.wait_seconds;
    row.loss = s->words[WORD_LOSS] / (float)l->slice.count;
    row.accuracy = (float)strategy_accuracy((double)s->words[WORD_CORRECT], (double)l->slice.count);
    row.bytes = gradients_bytes(s->gradients);
    return row;
}

/* ---- what follows a step that has several passes --------------------------------------------- */

static int sum_further_once(struct step_sum *s, const struct work *w, struct err *e)
{
    struct lockstep *l = s->l;
    const struct comm *c = l->env->comm;
    float *words = gradients_words(s->gradients);
    memset(words, 0, lockstep_words(l) * sizeof(float)); /* nothing is agreed */
    if (w->absent) {
        words[WORDS + c->workers + c->rank] = ABSENCE_TIME;
    } else {
        weighing_begin(&s->weighing, w, words);
    }
    return update(s, w, w->absent ? 0 : l->done_share, e);
}

int step_sum_make_further(struct step_sum *s, const struct work *w, struct err *e)
{
    struct lockstep *l = s->l;
    const struct survival_step step = {.work = w};
    int rc;
    l->at.further = true;
    s->absence.work = *w;
    s->absence.result = (struct dev_result){0};
    while ((rc = sum_further_once(s, w, e)) < 0) {
        if ((rc = recover(s, rc, &step, !w->absent, e)) < 0 || rc == RECOVERED) {
            return rc < 0 ? rc : 0;
        }
        if ((rc = gradients_add_again(s->gradients, lockstep_factor(l, w), e)) < 0) {
            return rc;
        }
    }
    survival_note_further(s->survival);
    return weighing_check(&s->weighing, w, s->words, e);
}

int step_sum_any(struct step_sum *s, bool mine, struct err *e)
{
    int rc;
    while ((rc = lockstep_any(s->l, mine, e)) < 0) {
        if ((rc = survival_recover(s->survival, rc, NULL, e)) < 0) {
            return rc;
        }
        if (rc == RECOVERED) {
            return survival_answer_of_all(s->survival);
        }
    }
    survival_note_answer(s->survival, rc > 0);
    return rc;
}

/* ---- an evaluation, and the end -------------------------------------------------------------- */

int step_sum_evaluate(struct step_sum *s, const struct work *w, const struct dev_result *r,
                      struct err *e)
{
    int rc;
    while ((rc = lockstep_evaluated(s->l, w, r, e)) < 0) {
        if ((rc = survival_recover(s->survival, rc, NULL, e)) < 0) {
            return rc;
        }
        if (rc == RECOVERED) { /* the others may have compared already */
            equal_pass_over(&s->equal);
            return 0;
        }
    }
    return equal_check(&s->equal, e);
}

int step_sum_finish(struct step_sum *s, struct err *e)
{
    return s->survival ? survival_finish(s->survival, NULL, 0, e)
                       : lockstep_finish(s->l, NULL, 0, e);
}

/* See survival.h. */
#include "worker/exchange/lockstep/survival/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- before anybody is lost ------------------------------------------------------------------ */

bool survival_is_possible(const struct rank_env *env)
{
    return env->lost && env->comm->workers > 1;
}

static bool one_is_lost(const struct survival *s)
{
    int ranks[SPEC_WORKERS];
    return members_find_lost(&s->members, s->l->env, ranks) > 0;
}

static bool has_changed(void *ctx)
{
    return one_is_lost(ctx) || survival_is_asked(ctx);
}

static struct survival *new (struct lockstep *l, struct err *e)
{
    struct comm *c = l->env->comm;
    struct survival *s = calloc(1, sizeof *s);
    size_t W = (size_t)c->workers;
    struct tally *made = calloc(1, W * (3 * sizeof *made + sizeof *s->last));
    if (!s || !made) {
        free(s);
        free(made);
        err_set(e, ERR_MEMORY, "cannot count the workers' steps: memory ran out");
        return NULL;
    }
    s->l = l;
    s->made = made;
    s->since = made + c->workers;
    s->launched = s->since + c->workers;
    s->last = (int64_t *)(s->launched + c->workers);
    c->changed = has_changed;
    c->changed_ctx = s;
    return s;
}

void survival_free(struct survival *s)
{
    if (s) {
        s->l->env->comm->changed = NULL;
        survival_listen_no_more(s);
        rollback_free(s->back);
        past_free(s->past);
        free(s->losses);
        free(s->made);
        free(s);
    }
}

int survival_look(struct survival *s, struct err *e)
{
    return s && has_changed(s) ? err_set(e, ERR_CANCELLED, "a worker was lost, or has come back")
                               : 0;
}

void survival_watch(struct survival *s, bool on)
{
    if (s) {
        s->l->env->comm->watches = on;
    }
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Makes the step with the sums and words that the giver has sent. */
static int use_sums(struct survival *s, const struct survival_step *step, struct err *e)
{
    struct lockstep *l = s->l;
    const float *words;
    int rc = gradients_use_given(s->g, step->work, &words, e);
    if (rc >= 0) {
        lockstep_done(l);
        survival_note(s, words);
        lockstep_agree(l, words);
    }
    return rc;
}

/* Completes the step that others have completed. This rank's gradient is in their sum. */
static int end_step(struct survival *s, const struct survival_step *step, struct err *e)
{
    struct lockstep *l = s->l;
    double n = (double)l->slice.count;
    int rc = 0;
    l->within_step = false;
    if (s->sums) {
        rc = use_sums(s, step, e);
    } else {
        survival_count_step(s, s->made);
        lockstep_done(l);
        survival_take_words(s);
    }
    struct row row = lockstep_row(l, step->work, NULL, step->compute_s, step->ready);
    row.loss = (float)(s->said.loss / n);
    row.accuracy = (float)strategy_accuracy(s->said.correct, n);
    row.bytes = gradients_bytes(s->g);
    if (rc >= 0) {
        l->env->row(l->env->ctx, &row);
    }
    return rc;
}

/* Completes a further exchange after the last step: with the sum that was sent, or with the answer
 * that came with it. */
static int end_exchange(struct survival *s, const struct verdict *v,
                        const struct survival_step *step, struct err *e)
{
    const float *words;
    s->exchanges = v->exchanges;
    s->l->within_step = false;
    if (step && !step->work->further) {
        return err_set(e, ERR_PEER, "a worker was lost while the program of another one came back");
    }
    return step ? gradients_use_given(s->g, step->work, &words, e) : 0;
}

/* This rank's part of the samples that the members had in the last step. */
static double share_of_last(const struct survival *s)
{
    const struct comm *c = s->l->env->comm;
    int64_t all = 0;
    for (int i = 0; i < c->n_members[COMM_ALL]; i++) {
        all += s->last[c->members[COMM_ALL][i]];
    }
    return all > 0 ? (double)s->last[c->rank] / (double)all : 0;
}

/* Completes the average that others have completed. This rank's replica went into it, and has been
 * replaced by it. */
static int end_interval(struct survival *s, const struct verdict *v, struct err *e)
{
    struct lockstep *l = s->l;
    int64_t step = s->back->by_rounds ? s->back->next.step : l->at.step;
    if (v->step != step) {
        return err_set(e, ERR_PEER,
                       "this worker is behind step %lld, and others have averaged %lld",
                       (long long)step, (long long)v->step);
    }
    if (!s->back->by_rounds) { /* rounds agree on them before their end */
        survival_take_words(s);
    }
    survival_forget_interval(s, true);
    rollback_advance(s->back);
    return 0;
}

/* All go to the last average that one of the members has. */
static int go_back(struct survival *s, const struct verdict *v, struct err *e)
{
    s->l->best = v->best;
    if (v->step > s->back->mark.step) {
        return end_interval(s, v, e);
    }
    survival_forget_interval(s, false);
    return rollback_return(s->back, e);
}

static int adopt(struct survival *s, const struct verdict *v, const struct survival_step *step,
                 bool behind, struct err *e)
{
    struct lockstep *l = s->l;
    int rc = 0;
    if (v->behind[l->env->comm->rank] == IS_NEW) {
        l->best = v->best;
    }
    if (s->back) {
        rc = go_back(s, v, e);
    } else if (v->step > l->at.step) {
        BUG_ON(!behind || !step);
        rc = end_step(s, step, e);
    } else if (s->sums && v->exchanges > s->exchanges) {
        rc = end_exchange(s, v, step, e);
    }
    if (rc >= 0 && s->sums) {
        rc = lockstep_lose(l, v->members.lost, v->members.n_lost, NULL, 0, e);
    } else if (rc >= 0 && !s->back) {
        lockstep_undo(l);
    }
    if (rc < 0) {
        return rc;
    }
    survival_take_members(s, &v->members);
    l->done_share = s->sums ? share_of_last(s) : l->done_share; /* more passes may follow */
    lockstep_adopt(l, v->version, v->sizes);
    l->next_version = 0;
    rc = survival_take_evaluation(s, v, behind, e);
    rollback_evaluated(rc < 0 ? NULL : s->back);
    return rc;
}

enum heard { HEARD_VERDICT, HEARD_END, HEARD_QUESTION };

/* If the giver or the receiver is lost during the transfer, the other one waits for the next
 * verdict. */
static int do_as_decided(struct survival *s, const struct survival_step *step, struct err *e)
{
    const struct verdict *v = &s->heard;
    int rank = s->l->env->comm->rank;
    bool behind = v->behind[rank];
    int rc = behind ? survival_take(s, v, e) : v->giver == rank ? survival_give(s, v, e) : GIVEN;
    bool given = rc == GIVEN;
    if (rc >= 0 && s->past) { /* others follow this verdict before they hear the next one */
        rc = survival_go_onward(s, v, given, e);
    } else if (given) {
        rc = adopt(s, v, step, behind, e);
    }
    return rc < 0 ? rc : given ? HEARD_VERDICT : HEARD_QUESTION;
}

/* Does what the keeper's next message says: enum heard, or negative. */
static int follow_word(struct survival *s, const struct survival_step *step, struct err *e)
{
    int rc = survival_hear(s, e);
    if (rc < 0) {
        return rc;
    }
    switch ((enum keeper_saying)s->heard.saying) {
    case KEEPER_LETS_IN:
        if ((rc = survival_reach(s, e)) >= 0) {
            rc = survival_say_ready(s, e);
        }
        break;
    case KEEPER_ASKS:
        if ((rc = survival_let_in(s, e)) >= 0) {
            rc = survival_answer(s, e);
        }
        break;
    case KEEPER_DECIDES:
        return do_as_decided(s, step, e);
    case KEEPER_ENDS:
        return HEARD_END;
    }
    return rc < 0 ? rc : HEARD_QUESTION;
}

/* Answers the keeper until it decides, and follows the verdict. */
static int follow(struct survival *s, const struct survival_step *step, struct err *e)
{
    int rc;
    do {
        rc = follow_word(s, step, e);
    } while (rc == HEARD_QUESTION);
    return rc;
}

/* Makes a newcomer a member. */
static int join(struct survival *s, struct err *e)
{
    s->is_new = true;
    int rc = follow(s, NULL, e);
    return rc == HEARD_END
               ? err_set(e, ERR_PEER, "the run has ended, or continues without this worker")
               : rc;
}

struct survival *survival_new(struct lockstep *l, struct gradients *g, struct err *e)
{
    struct survival *s = new (l, e);
    if (s) {
        s->g = g;
        s->sums = gradients_keeps_sums(g);
    }
    if (s && (gradients_keep(g, e) < 0 || (l->env->comes_back && join(s, e) < 0))) {
        survival_free(s);
        return NULL;
    }
    return s;
}

struct survival *survival_new_of_averages(struct lockstep *l, bool by_rounds,
                                          survival_give_up_fn *give_up, void *ctx, double *taken,
                                          struct err *e)
{
    struct survival *s = new (l, e);
    if (s) {
        s->give_up = give_up;
        s->give_up_ctx = ctx;
        s->taken = taken;
        s->back = rollback_new(l, by_rounds, e);
        s->past = l->env->program.ahead > 0 ? past_new(l, e) : NULL;
    }
    if (s && (!s->back || (l->env->program.ahead > 0 && !s->past) ||
              (l->env->comes_back && join(s, e) < 0))) {
        survival_free(s);
        return NULL;
    }
    return s;
}

/* Where this worker stands before and after recovery. */
struct place {
    int64_t step, exchanges, averages;
    bool evaluated;
};

static struct place stand_of(const struct survival *s)
{
    return (struct place){s->l->at.step, s->exchanges, s->back ? s->back->averages : 0,
                          s->l->at.evaluated_here};
}

/* Was the exchange completed between `was` and now? */
static int recovered(const struct survival *s, const struct survival_step *step,
                     const struct place *was)
{
    struct place is = stand_of(s);
    bool made = s->past
                    ? is.averages > was->averages || is.evaluated > was->evaluated
                    : (step ? is.step > was->step : is.evaluated) || is.exchanges > was->exchanges;
    return (s->sums || s->past) && !made ? RECOVERED_ONCE_MORE : RECOVERED;
}

int survival_recover(struct survival *s, int rc, const struct survival_step *step, struct err *e)
{
    if (!s || rc != -ERR_CANCELLED || !has_changed(s)) {
        return rc;
    }
    const struct place was = stand_of(s);
    err_clear(e);
    rc = s->back ? s->give_up(s->give_up_ctx, e) : gradients_undo(s->g, e);
    if (rc < 0 || (rc = allreduce_cancel(&s->l->sums, e)) < 0 || (rc = follow(s, step, e)) < 0) {
        return rc;
    }
    return rc == HEARD_VERDICT ? recovered(s, step, &was)
                               : err_set(e, ERR_PEER, "the keeper has ended the run within a step");
}

/* Sends the last state and follows the keeper: HEARD_END, HEARD_VERDICT if all have to send it
 * again, or negative. */
static int give_last(struct survival *s, float *optim, size_t n_optim, struct err *e)
{
    struct rank_env *env = s->l->env;
    int rc = lockstep_finish(s->l, optim, n_optim, e);
    if (rc < 0) {
        rc = survival_recover(s, rc, NULL, e);
        return rc < 0 ? rc : HEARD_VERDICT;
    }
    env->aside(env->ctx, true);
    if ((rc = survival_say_finished(s, e)) >= 0) {
        rc = follow(s, NULL, e);
    }
    env->aside(env->ctx, false);
    return rc;
}

int survival_finish(struct survival *s, float *optim, size_t n_optim, struct err *e)
{
    int rc;
    do {
        rc = give_last(s, optim, n_optim, e);
        optim = s->past ? optim : NULL; /* the state that all went back to is complete */
        n_optim = s->past ? n_optim : 0;
    } while (rc == HEARD_VERDICT);
    return rc < 0 ? rc : 0;
}

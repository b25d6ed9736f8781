/* See survivors.h. */
#include "worker/exchange/lockstep/survivors.h"

#include <stdlib.h>
#include <string.h>

static const double LOOK_SECONDS = 0.02;

struct note { /* to one worker; it may be lost before it takes it */
    struct message m;
    struct verdict said;
    struct note *next;
};

static void count_left(struct survivors *s)
{
    s->n_left = 0;
    for (int i = 0; i < s->env->comm->workers; i++) {
        if (!survivors_lost(s, i)) {
            s->left[s->n_left++] = i;
        }
    }
}

int survivors_init(struct survivors *s, struct rank_env *env, const struct run_state *from,
                   struct err *e)
{
    size_t W = (size_t)env->comm->workers;
    *s = (struct survivors){.env = env, .version = from->version, .applied = from->applied_samples};
    if (!env->lost) {
        return 0;
    }
    s->left = calloc(W, sizeof *s->left);
    s->told = calloc(W, sizeof *s->told);
    s->answered = calloc(W, sizeof *s->answered);
    s->finished = calloc(W, sizeof *s->finished);
    s->of = calloc(W, sizeof *s->of);
    s->control = calloc(1, sizeof *s->control);
    if (!s->left || !s->told || !s->answered || !s->finished || !s->of || !s->control) {
        return err_set(e, ERR_MEMORY, "cannot keep the workers' words: memory ran out");
    }
    count_left(s);
    return 0;
}

bool survivors_lost(const struct survivors *s, int rank)
{
    bool found = false;
    for (int i = 0; i < s->round; i++) {
        found = found || s->lost[i] == rank;
    }
    return found;
}

/* ---- to the workers -------------------------------------------------------------------------- */

static int drop_notes(struct survivors *s, bool all, struct err *e)
{
    int rc = 0;
    for (struct note **at = &s->notes; *at && rc >= 0;) {
        struct note *n = *at;
        bool ended = comm_test(&n->m.op) != COMM_UNDER_WAY;
        if (!ended && all) {
            rc = comm_cancel(s->env->comm, &n->m.op, e);
            ended = rc >= 0;
        }
        if (ended) {
            *at = n->next;
            free(n);
        } else {
            at = &n->next;
        }
    }
    return rc;
}

void survivors_release(struct survivors *s)
{
    drop_notes(s, true, NULL);
    free(s->left);
    free(s->told);
    free(s->answered);
    free(s->finished);
    free(s->of);
    free(s->control);
}

static int tell_all(struct survivors *s, const struct verdict *v, struct err *e)
{
    drop_notes(s, false, NULL);
    for (int i = 0; i < s->n_left; i++) {
        struct note *n = calloc(1, sizeof *n);
        if (!n) {
            return err_set(e, ERR_MEMORY, "cannot answer the workers: memory ran out");
        }
        n->said = *v;
        n->next = s->notes;
        s->notes = n;
        message_send(&n->m, s->env->comm, s->left[i], TAG_VERDICT, &n->said, sizeof n->said, NULL,
                     0);
    }
    return 0;
}

static struct verdict begin_verdict(const struct survivors *s, enum keeper_saying what)
{
    struct verdict v = {.saying = what, .round = s->round};
    for (int i = 0; i < s->round; i++) {
        v.lost[i] = s->lost[i];
    }
    return v;
}

static void forget_words(struct survivors *s)
{
    size_t W = (size_t)s->env->comm->workers;
    memset(s->answered, 0, W * sizeof *s->answered);
    memset(s->finished, 0, W * sizeof *s->finished);
}

int survivors_look(struct survivors *s, struct err *e)
{
    struct rank_env *env = s->env;
    if (!env->lost) {
        return 0;
    }
    env->control(env->ctx, s->control);
    if (s->control->n_lost <= s->round) {
        return 0;
    }
    if (s->control->n_lost > COMM_GENERATIONS || s->control->n_lost >= env->comm->workers) {
        return err_set(e, ERR_PEER, "%d workers are lost, too many to go on", s->control->n_lost);
    }
    s->round = s->control->n_lost;
    memcpy(s->lost, s->control->lost, sizeof(int) * (size_t)s->round);
    count_left(s);
    forget_words(s);
    struct verdict v = begin_verdict(s, KEEPER_ASKS);
    return tell_all(s, &v, e);
}

static bool is_lost_now(struct survivors *s, int rank)
{
    bool found = false;
    s->env->control(s->env->ctx, s->control);
    for (int i = 0; i < s->control->n_lost; i++) {
        found = found || s->control->lost[i] == rank;
    }
    return found;
}

int survivors_end(struct survivors *s, struct err *e)
{
    struct verdict v = begin_verdict(s, KEEPER_ENDS);
    int rc = tell_all(s, &v, e);
    for (struct note *n = s->notes; n && rc >= 0; n = n->next) {
        do {
            rc = comm_wait_for(s->env->comm, &n->m.op, LOOK_SECONDS, e);
        } while (rc == COMM_UNDER_WAY && !is_lost_now(s, n->m.peer));
    }
    return rc < 0 ? rc : 0;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static bool all_of(const struct survivors *s, const bool *what)
{
    bool all = true;
    for (int i = 0; i < s->n_left; i++) {
        all = all && what[s->left[i]];
    }
    return all;
}

bool survivors_finished(const struct survivors *s)
{
    return all_of(s, s->finished);
}

/* Counters of a lost worker, with what it was given of earlier attempts (worker/pulse). */
static void count_made(const struct survivors *s, int rank, const struct tally *made,
                       struct staleness *out)
{
    int tau = strategy_traits(s->env->spec->strategy.type)->replicas == REPLICAS_BEHIND;
    int64_t W = s->env->comm->workers,
            samples = s->applied / W + (rank < s->applied % W) + made->samples,
            updates = s->version + made->steps;
    staleness_init(out);
    for (int64_t i = 0; i < updates; i++) {
        staleness_add(out, tau, (int)(samples / updates));
    }
    out->samples = (double)samples;
}

static void tell_departures(struct survivors *s, const struct verdict *v)
{
    const struct tally *made = s->of[v->giver].lost;
    for (int i = 0; i < s->round; i++) {
        int who = s->lost[i];
        if (s->told[who]) {
            continue;
        }
        struct departure left = {
            .who = who, .step = v->step, .others = s->n_left, .pushes = made[i].steps};
        count_made(s, who, &made[i], &left.staleness);
        s->env->left(s->env->ctx, &left);
        staleness_release(&left.staleness);
        s->told[who] = true;
    }
    s->env->n_lost = s->round;
}

static int decide(struct survivors *s, double best, struct err *e)
{
    struct verdict v = begin_verdict(s, KEEPER_DECIDES);
    int rc = verdict_decide(&v, s->of, s->left, s->n_left, e);
    if (rc < 0) {
        return rc;
    }
    v.first_lost = s->left[0] != s->first;
    s->first = s->left[0];
    v.best = best;
    v.version = s->control->version;
    for (int i = 0; i < s->env->comm->workers; i++) {
        v.sizes[i] = s->control->sizes[i];
    }
    forget_words(s);
    tell_departures(s, &v);
    return tell_all(s, &v, e);
}

/* All replicas went through the same updates, so they have the same bits. */
static int finish(struct survivors *s, const struct worker_word *w, struct err *e)
{
    s->of[w->rank] = w->standing;
    s->finished[w->rank] = true;
    for (int i = 0; i < s->n_left; i++) {
        int r = s->left[i];
        if (s->finished[r] && s->of[r].digest != w->standing.digest) {
            return err_set(e, ERR_PEER,
                           "the parameters of workers %d and %d are not the same after the loss of "
                           "another one",
                           r, w->rank);
        }
    }
    return 0;
}

int survivors_hear(struct survivors *s, const struct worker_word *w, double best, struct err *e)
{
    if (w->standing.round != s->round) {
        return 0; /* another one was lost meanwhile, and all were asked again */
    }
    if (w->saying == SAYS_FINISHED) {
        return finish(s, w, e);
    }
    s->of[w->rank] = w->standing;
    s->answered[w->rank] = true;
    int rc = survivors_look(s, e);
    return rc < 0 || !all_of(s, s->answered) ? rc : decide(s, best, e);
}

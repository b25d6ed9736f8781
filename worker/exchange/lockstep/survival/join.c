/* How a newcomer and the members connect to each other (docs/decisions/0062). See parts.h.
 *
 *      keeper ── lets it in ──► newcomer ── connects to each member, is ready ──► keeper
 *      keeper ── asks ──► all: they accept the connection, and answer
 *
 * The members go on training until the newcomer is ready, so one that dies before that stops
 * nobody. Once all have answered, every rank is connected to every other one. */
#include "worker/exchange/lockstep/survival/parts.h"

#include <string.h>

#include "common/clock.h"

static const double REACH_SECONDS = 2, LOOK_AGAIN_SECONDS = 0.002;
static const double KNOCK_SECONDS = 20, LOOK_SECONDS = 0.05;

/* Connects to one member. 0 also if that is lost meanwhile: then the keeper asks all without it. */
static int reach(const struct survival *s, int rank, struct err *e)
{
    const struct rank_env *env = s->l->env;
    struct transport *t = env->comm->t;
    double until = clock_now() + KNOCK_SECONDS;
    int rc;
    while ((rc = t->ops->reach(t, rank, LOOK_SECONDS, e)) == -ERR_PEER && clock_now() < until) {
        err_clear(e);
        if (members_lost(&s->heard.members, env, rank)) {
            return 0;
        }
    }
    return rc;
}

int survival_reach(struct survival *s, struct err *e)
{
    const struct members *m = &s->heard.members;
    struct comm *c = s->l->env->comm;
    int rc = 0;
    c->t->ops->open_door(c->t); /* for the next newcomer */
    for (int i = 0; i < c->workers && rc >= 0; i++) {
        if (i != c->rank && !members_lack(m, i)) {
            rc = reach(s, i, e);
        }
    }
    memcpy(s->reached, m->seat, sizeof s->reached);
    return rc;
}

/* Writes the seats of the newcomers to out[workers], 0 for other ranks, and returns their number.
 *  */
static int find_newcomers(const struct survival *s, int *out)
{
    const struct members *m = &s->heard.members;
    int n = 0;
    for (int i = 0; i < s->l->env->comm->workers; i++) {
        bool comes =
            i != s->l->env->comm->rank && m->seat[i] > s->reached[i] && !members_lack(m, i);
        out[i] = comes ? m->seat[i] : 0;
        n += comes;
    }
    return n;
}

/* Accepts one of them. A connection from another host may arrive later than the keeper's message.
 *  */
static int admit(struct comm *c, const int *seats)
{
    double until = clock_now() + REACH_SECONDS;
    int rank;
    while ((rank = c->t->ops->admit(c->t, seats, c->workers)) < 0 && clock_now() < until) {
        clock_sleep(LOOK_AGAIN_SECONDS);
    }
    return rank;
}

/* The newcomers are connecting already: the keeper asks only when they are ready. */
int survival_let_in(struct survival *s, struct err *e)
{
    struct comm *c = s->l->env->comm;
    int seats[SPEC_WORKERS];
    for (int n = find_newcomers(s, seats); n > 0; n--) {
        int rank = admit(c, seats);
        if (rank < 0) {
            return err_set(e, ERR_PEER, "a worker that has come back does not reach this one");
        }
        s->reached[rank] = (uint8_t)seats[rank];
        seats[rank] = 0;
    }
    return 0;
}

bool survival_is_asked(struct survival *s)
{
    int seats[SPEC_WORKERS];
    if (s->sums && s->l->at.further) {
        return false; /* others may be in a further pass of the step, without the newcomer */
    }
    if (s->members.n_lost > 0 && s->l->env->seats &&
        members_find_expected(&s->members, s->l->env, seats) > 0) {
        survival_listen(s);
    }
    return s->listens && comm_test(&s->ear.op) != COMM_UNDER_WAY;
}

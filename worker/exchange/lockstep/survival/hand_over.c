/* What the giver sends to a newcomer (docs/decisions/0062, 0074, 0084). See parts.h.
 *
 *      giver     where it stands, counts of all ─────► newcomer
 *      where users' programs made the steps:
 *                steps that were cut in advance ──────►
 *                those since the last average ────────►  where replicas differ between averages
 *                parameters, statistics ──────────────►  replica
 *                the program's own state ─────────────►  its program goes on (rank_env.enter)
 *
 * Meanwhile the others wait for the newcomer in their next sum. If it dies here, it is lost like
 * any member. If the giver's program has ended, the giver has no state to send and says so; then
 * the newcomer ends. */
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

struct stand {
    struct lockstep_mark at;
    int64_t averages; /* as in struct standing */
    bool asked_checkpoint;
    bool gives;      /* the state of its program follows */
    bool ends_epoch; /* and the program stands at an epoch's end (OWN_STATE_AT_EPOCH_END) */
    int32_t version;
    int32_t sizes[SPEC_WORKERS]; /* minibatches */
    /* where replicas keep their steps: */
    struct members members;    /* before this verdict */
    enum meeting meeting;      /* the exchange that is due */
    double taken;              /* samples since the last average over all */
    struct lockstep_mark mark; /* where that was made */
};

static int pass_stand(struct survival *s, int peer, bool give, struct stand *stand, struct err *e)
{
    size_t W = (size_t)s->l->env->comm->workers;
    int rc = survival_pass(s, peer, give, stand, sizeof *stand, e);
    rc = rc == GIVEN ? survival_pass(s, peer, give, s->made, W * sizeof *s->made, e) : rc;
    return rc == GIVEN && s->past ? survival_pass(s, peer, give, s->since, W * sizeof *s->since, e)
                                  : rc;
}

/* Where replicas differ, the block of the last average is sent, which all had. */
static int pass_block(struct survival *s, int peer, bool give, enum dev_block which, struct err *e)
{
    const struct dev_replica *r = s->l->env->replica;
    struct comm *c = s->l->env->comm;
    struct message m;
    size_t n = r->count[which];
    char none = 0;
    if (n == 0) {
        return GIVEN;
    }
    if (give) {
        float *from = s->past ? rollback_kept(s->back, which, &n) : r->host[which];
        message_send(&m, c, peer, TAG_PARAMETERS, &none, 1, from, n);
    } else {
        message_recv(&m, c, peer, TAG_PARAMETERS, &none, 1, r->host[which], n);
    }
    return survival_wait_for_peer(s, &m, e);
}

static int pass_replica(struct survival *s, int peer, bool give, struct err *e)
{
    int rc = pass_block(s, peer, give, DEV_PARAMS, e);
    return rc == GIVEN ? pass_block(s, peer, give, DEV_STATS, e) : rc;
}

/* ---- the giver sends ------------------------------------------------------------------------- */

static int give_steps(struct survival *s, int to, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct own_state cut = {0}, made = {0};
    int rc = advance_write(s->l, &cut, e);
    if (rc >= 0) {
        rc = own_state_send_by(c, to, &cut, survival_wait_for_peer, s, e);
    }
    if (rc == GIVEN && s->past && (rc = past_write(s->past, &made, e)) >= 0) {
        rc = own_state_send_by(c, to, &made, survival_wait_for_peer, s, e);
    }
    own_state_release(&cut);
    own_state_release(&made);
    return rc;
}

static int give_program(struct survival *s, int to, const struct own_state *own, struct err *e)
{
    int rc = give_steps(s, to, e);
    rc = rc == GIVEN ? pass_replica(s, to, true, e) : rc;
    return rc == GIVEN ? own_state_send_by(s->l->env->comm, to, own, survival_wait_for_peer, s, e)
                       : rc;
}

/* Asks the giver's program for its state. Where each program makes its own steps, it makes the last
 * one before. */
static void take_own(struct survival *s, struct own_state *own, struct stand *stand)
{
    struct rank_env *env = s->l->env;
    struct err none = {0}; /* an error comes again with the next message to the program */
    if (s->past && (s->l->under_way || lockstep_over(s->l))) {
        return; /* no step follows */
    }
    if (s->past && env->replica->dev->ops->fetch(env->replica, DEV_PARAMS, 0,
                                                 env->replica->count[DEV_PARAMS], &none) < 0) {
        return;
    }
    if ((s->sums || s->past) && env->give) {
        int rc = env->give(env->ctx, own, &none);
        stand->gives = rc >= 0;
        stand->ends_epoch = rc == OWN_STATE_AT_EPOCH_END;
    }
}

int survival_give_stand(struct survival *s, int to, struct err *e)
{
    struct own_state own = {0};
    struct stand stand = {.averages = s->back ? s->back->averages : 0,
                          .asked_checkpoint = s->l->asked_checkpoint,
                          .version = s->l->version,
                          .members = s->members,
                          .meeting = s->meeting};
    lockstep_stand(s->l, &stand.at);
    memcpy(stand.sizes, s->l->sizes, sizeof stand.sizes);
    if (s->past) {
        stand.taken = *s->taken;
        stand.mark = s->back->mark;
    }
    take_own(s, &own, &stand);
    int rc = pass_stand(s, to, true, &stand, e);
    if (rc == GIVEN && stand.gives) {
        rc = give_program(s, to, &own, e);
    }
    own_state_release(&own);
    return rc;
}

/* ---- the newcomer receives ------------------------------------------------------------------- */

static int take_steps(struct survival *s, int giver, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct own_state cut = {0}, made = {0};
    int rc = own_state_receive_by(c, giver, &cut, survival_wait_for_peer, s, e);
    if (rc == GIVEN && (rc = advance_read(s->l, &cut, e)) >= 0 && s->past &&
        (rc = own_state_receive_by(c, giver, &made, survival_wait_for_peer, s, e)) == GIVEN) {
        rc = past_read(s->past, &made, e);
    }
    own_state_release(&cut);
    own_state_release(&made);
    return rc;
}

static int take_program(struct survival *s, int giver, bool ends_epoch, struct err *e)
{
    struct rank_env *env = s->l->env;
    struct own_state own = {0};
    const struct lockstep_mark *at = &s->l->at;
    int rc = take_steps(s, giver, e);
    rc = rc == GIVEN ? pass_replica(s, giver, false, e) : rc;
    if (rc == GIVEN) {
        rc = own_state_receive_by(env->comm, giver, &own, survival_wait_for_peer, s, e);
    }
    if (rc == GIVEN) {
        const struct entrance entrance = {.at = at->cursor,
                                          .made = at->step - at->first,
                                          .ends_epoch = ends_epoch,
                                          .parts = s->l->advance.parts,
                                          .n_parts = s->l->advance.n};
        rc = env->enter(env->ctx, &entrance, &own, e);
    }
    own_state_release(&own);
    return rc;
}

int survival_take_stand(struct survival *s, int giver, int64_t *averages, struct err *e)
{
    struct stand stand = {0};
    int rc = pass_stand(s, giver, false, &stand, e);
    if (rc != GIVEN) {
        return rc;
    }
    *averages = stand.averages;
    lockstep_stand_at(s->l, &stand.at, s->made[s->l->env->comm->rank].steps);
    lockstep_adopt(s->l, stand.version, stand.sizes);
    s->l->asked_checkpoint = stand.asked_checkpoint;
    if (!s->sums && !s->past) {
        return GIVEN;
    }
    if (!stand.gives) {
        return err_set(e, ERR_PEER, "worker %d has no program that could give its state", giver);
    }
    rc = take_program(s, giver, stand.ends_epoch, e);
    if (rc == GIVEN && s->past) {
        s->members = stand.members;
        s->meeting = stand.meeting;
        *s->taken = stand.taken;
        rollback_begin(s->back, stand.averages, &stand.mark);
    }
    return rc;
}

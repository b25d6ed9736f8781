/* What a worker that comes back gets of the one that gives (docs/decisions/0062, 0074): see
 * parts.h.
 *
 *      giver     where it stands, what all have made ─► newcomer
 *      where sums are kept, as of users' programs:
 *                steps that were cut in advance ──────►
 *                parameters, statistics ──────────────►  replica
 *                the program's own state ─────────────►  its program goes on (rank_env.enter)
 *
 * The others wait for a newcomer in their next sum. One that dies here is lost as any other. A
 * giver whose program is away says that it gives none, and the newcomer ends. */
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

struct stand {
    struct lockstep_mark at;
    int64_t averages; /* as in struct standing */
    bool asked_checkpoint;
    bool gives; /* its program has told its state */
    int32_t version;
    int32_t sizes[SPEC_WORKERS]; /* minibatches */
};

static int pass_stand(struct survival *s, int peer, bool give, struct stand *stand, struct err *e)
{
    size_t W = (size_t)s->l->env->comm->workers;
    int rc = survival_pass(s, peer, give, stand, sizeof *stand, e);
    return rc == GIVEN ? survival_pass(s, peer, give, s->made, W * sizeof *s->made, e) : rc;
}

static int pass_block(struct survival *s, int peer, bool give, enum dev_block which, struct err *e)
{
    const struct dev_replica *r = s->l->env->replica;
    struct comm *c = s->l->env->comm;
    struct message m;
    char none = 0;
    if (r->count[which] == 0) {
        return GIVEN;
    }
    if (give) {
        message_send(&m, c, peer, TAG_PARAMETERS, &none, 1, r->host[which], r->count[which]);
    } else {
        message_recv(&m, c, peer, TAG_PARAMETERS, &none, 1, r->host[which], r->count[which]);
    }
    return survival_wait_for_peer(s, &m, e);
}

static int pass_replica(struct survival *s, int peer, bool give, struct err *e)
{
    int rc = pass_block(s, peer, give, DEV_PARAMS, e);
    return rc == GIVEN ? pass_block(s, peer, give, DEV_STATS, e) : rc;
}

/* ---- to it ----------------------------------------------------------------------------------- */

static int give_program(struct survival *s, int to, const struct own_state *own, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct own_state steps = {0};
    int rc = advance_write(s->l, &steps, e);
    if (rc < 0 || (rc = own_state_send_by(c, to, &steps, survival_wait_for_peer, s, e)) != GIVEN ||
        (rc = pass_replica(s, to, true, e)) != GIVEN) {
        goto out;
    }
    rc = own_state_send_by(c, to, own, survival_wait_for_peer, s, e);
out:
    own_state_release(&steps);
    return rc;
}

int survival_give_stand(struct survival *s, int to, struct err *e)
{
    struct rank_env *env = s->l->env;
    struct own_state own = {0};
    struct err none = {0}; /* its next message to the program meets the same */
    struct stand stand = {.averages = s->back ? s->back->averages : 0,
                          .asked_checkpoint = s->l->asked_checkpoint,
                          .version = s->l->version};
    lockstep_stand(s->l, &stand.at);
    memcpy(stand.sizes, s->l->sizes, sizeof stand.sizes);
    stand.gives = s->sums && env->give(env->ctx, &own, &none) >= 0;
    int rc = pass_stand(s, to, true, &stand, e);
    if (rc == GIVEN && stand.gives) {
        rc = give_program(s, to, &own, e);
    }
    own_state_release(&own);
    return rc;
}

/* ---- of the giver ---------------------------------------------------------------------------- */

static int take_program(struct survival *s, int giver, struct err *e)
{
    struct rank_env *env = s->l->env;
    struct own_state steps = {0}, own = {0};
    int rc = own_state_receive_by(env->comm, giver, &steps, survival_wait_for_peer, s, e);
    if (rc == GIVEN && (rc = advance_read(s->l, &steps, e)) >= 0) {
        rc = pass_replica(s, giver, false, e);
    }
    if (rc == GIVEN) {
        rc = own_state_receive_by(env->comm, giver, &own, survival_wait_for_peer, s, e);
    }
    if (rc == GIVEN) {
        rc = env->enter(env->ctx, &s->l->at.cursor, s->l->at.step - s->l->at.first, &own, e);
    }
    own_state_release(&steps);
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
    if (!s->sums) {
        return GIVEN;
    }
    return stand.gives
               ? take_program(s, giver, e)
               : err_set(e, ERR_PEER, "worker %d has no program that could give its state", giver);
}

/* Messages to and from the keeper, and to and from another worker that may die meanwhile. See
 * parts.h. */
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

static const double LOOK_SECONDS = 0.02;
static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* ---- the keeper ------------------------------------------------------------------------------ */

static int say(struct survival *s, enum saying what, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct message m;
    s->word.saying = what;
    s->word.rank = c->rank;
    message_send(&m, c, c->workers, TAG_STATE, &s->word, sizeof s->word, NULL, 0);
    return comm_wait(c, &m.op, e);
}

void survival_listen(struct survival *s)
{
    struct comm *c = s->l->env->comm;
    if (!s->listens) {
        message_recv(&s->ear, c, c->workers, TAG_VERDICT, &s->heard, sizeof s->heard, NULL, 0);
        s->listens = true;
    }
}

void survival_listen_no_more(struct survival *s)
{
    if (s->listens) {
        comm_cancel(s->l->env->comm, &s->ear.op, NULL);
        s->listens = false;
    }
}

/* It has no deadline, since others may still compute their step. Heartbeats tell who is alive. */
int survival_hear(struct survival *s, struct err *e)
{
    struct comm *c = s->l->env->comm;
    double deadline = c->deadline;
    survival_listen(s);
    c->deadline = 0;
    int rc = comm_wait(c, &s->ear.op, e);
    c->deadline = deadline;
    s->listens = false;
    return rc;
}

int survival_answer(struct survival *s, struct err *e)
{
    struct standing *mine = &s->word.standing;
    const struct members *m = &s->heard.members;
    *mine = (struct standing){.round = m->round,
                              .torn = s->torn,
                              .is_new = s->is_new,
                              .step = s->back ? s->back->mark.step : s->l->at.step,
                              .averages = s->back ? s->back->averages : 0,
                              .exchanges = s->exchanges,
                              .made = s->l->at.step,
                              .evaluated = s->lent   ? s->evaluations
                                           : s->back ? s->back->mark.evaluated_here
                                                     : s->l->at.evaluated_here};
    for (int i = 0; i < m->n_lost; i++) {
        mine->lost[i] = s->made[m->lost[i]];
    }
    survival_tell_group(s);
    return say(s, SAYS_STANDING, e);
}

/* FNV-1a over the bits of the blocks, float by float. By rounds without statistics, which are equal
 * only one round later. */
static uint64_t digest_of(const struct dev_replica *r, bool by_rounds)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < BLOCKS && !(by_rounds && blocks[i] == DEV_STATS); i++) {
        for (size_t k = 0; k < r->count[blocks[i]]; k++) {
            uint32_t bits;
            memcpy(&bits, &r->host[blocks[i]][k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3;
        }
    }
    return hash;
}

int survival_say_finished(struct survival *s, struct err *e)
{
    s->word.standing = (struct standing){
        .round = s->members.round,
        .step = s->l->at.step,
        .exchanges = s->exchanges,
        .evaluated = s->l->at.evaluated_here,
        .digest = s->members.round > 0 && !s->sums && !s->past
                      ? digest_of(s->l->env->replica, s->back && s->back->by_rounds)
                      : 0,
    };
    return say(s, SAYS_FINISHED, e);
}

int survival_say_ready(struct survival *s, struct err *e)
{
    return say(s, SAYS_READY, e);
}

/* ---- another worker -------------------------------------------------------------------------- */

int survival_wait_for_peer(void *ctx, struct message *m, struct err *e)
{
    struct survival *s = ctx;
    struct comm *c = s->l->env->comm;
    int rc;
    while ((rc = comm_wait_for(c, &m->op, LOOK_SECONDS, e)) == COMM_UNDER_WAY) {
        if (survival_is_lost(s, m->peer)) {
            rc = comm_cancel(c, &m->op, e);
            return rc < 0       ? rc
                   : m->op.torn ? err_set(e, ERR_PEER, "worker %d was lost while it gave", m->peer)
                                : PEER_LOST;
        }
    }
    return rc < 0 ? rc : GIVEN;
}

int survival_pass(struct survival *s, int peer, bool give, void *data, size_t bytes, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct message m;
    if (give) {
        message_send(&m, c, peer, TAG_GIFT, data, bytes, NULL, 0);
    } else {
        message_recv(&m, c, peer, TAG_GIFT, data, bytes, NULL, 0);
    }
    return survival_wait_for_peer(s, &m, e);
}

/* What a worker that goes on says to the keeper, and what workers give to each other: see
 * parts.h. */
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

static const double LOOK_SECONDS = 0.02;
static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Floats that a giver gives: its replica, or the sums of the last step. */
struct floats {
    float *at;
    size_t n;
};
enum { FLOATS_MOST = BLOCKS };

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

/* Others may still compute, for as long as their step takes; heartbeats tell who is alive. */
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

/* FNV-1a over the bits of the blocks, float by float; each rank has statistics of its own until a
 * round later. */
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

/* ---- the replica or a sum, from one worker to another ---------------------------------------- */

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

/* How many. */
static int list_floats(const struct survival *s, enum which_sum which, struct floats *out)
{
    const struct dev_replica *r = s->l->env->replica;
    for (int i = 0; i < SUM_PARTS && s->sums; i++) {
        out[i].at = gradients_sum_part(s->g, which, i, &out[i].n);
    }
    if (s->lent) {
        *out =
            (struct floats){which == SUM_ENDED ? s->lent->landed : s->lent->under_way, s->lent->n};
        return 1;
    }
    for (int i = 0; i < BLOCKS && s->past; i++) {
        out[i].at = rollback_kept(s->back, blocks[i], &out[i].n);
    }
    for (int i = 0; i < BLOCKS && !s->sums && !s->past; i++) {
        out[i] = (struct floats){r->host[blocks[i]], r->count[blocks[i]]};
    }
    return s->sums ? SUM_PARTS : BLOCKS;
}

/* To one worker, or from one: the gift goes with the first floats. */
static int pass_floats(struct survival *s, int peer, bool give, struct gift *gift, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct floats floats[FLOATS_MOST];
    int n = list_floats(s, give ? SUM_ENDED : SUM_UNDER_WAY, floats), rc = GIVEN;
    for (int i = 0; i < n && rc == GIVEN; i++) {
        struct message m;
        if (give) {
            message_send(&m, c, peer, TAG_GIFT, gift, sizeof *gift, floats[i].at, floats[i].n);
        } else {
            message_recv(&m, c, peer, TAG_GIFT, gift, sizeof *gift, floats[i].at, floats[i].n);
        }
        rc = survival_wait_for_peer(s, &m, e);
    }
    return rc;
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

static int pass_agreed(struct survival *s, int peer, bool give, struct err *e)
{
    struct lockstep *l = s->l;
    struct agreed a = {.version = l->version, .next_version = l->next_version};
    memcpy(a.sizes, l->sizes, sizeof a.sizes);
    memcpy(a.next_sizes, l->next_sizes, sizeof a.next_sizes);
    int rc = survival_pass(s, peer, give, &a, sizeof a, e);
    if (rc == GIVEN && !give && s->meeting == MEETS_TO_AVERAGE) {
        lockstep_adopt(l, a.version, a.sizes);
        l->next_version = a.next_version;
        memcpy(l->next_sizes, a.next_sizes, sizeof a.next_sizes);
    }
    return rc;
}

/* The gift, with the floats that the other one lacks. */
static int pass_gift(struct survival *s, int peer, bool give, int behind, struct gift *gift,
                     struct err *e)
{
    if ((s->sums || s->past) && behind != IS_BEHIND) {
        return survival_pass(s, peer, give, gift, sizeof *gift, e);
    }
    int rc = pass_floats(s, peer, give, gift, e);
    return rc == GIVEN && s->past && !s->lent ? pass_agreed(s, peer, give, e) : rc;
}

/* ---- everything ------------------------------------------------------------------------------ */

/* The replica's blocks between the device and the host; sums are on the host. */
static int move_replica(struct survival *s, bool fetch, struct err *e)
{
    struct dev_replica *r = s->l->env->replica;
    const struct device_ops *ops = r->dev->ops;
    int rc = 0;
    for (int i = 0; i < BLOCKS && rc >= 0 && !s->sums && !s->past; i++) {
        size_t n = r->count[blocks[i]];
        rc = n == 0  ? 0
             : fetch ? ops->fetch(r, blocks[i], 0, n, e)
                     : ops->store(r, blocks[i], 0, n, e);
    }
    return rc;
}

int survival_give(struct survival *s, const struct verdict *v, struct err *e)
{
    struct gift gift = s->said;
    bool returns = s->back && !s->past;
    int rc = returns ? rollback_return(s->back, e) : 0; /* what is given is the average */
    if (rc < 0) {
        return rc;
    }
    gift.test_loss = s->l->at.last_loss;
    gift.test_accuracy = s->l->at.last_accuracy;
    gift.test_samples = s->l->at.last_samples;
    gift.left = s->l->at.left;
    rc = s->back ? 0 : move_replica(s, true, e);
    for (int to = 0; to < s->l->env->comm->workers && rc >= 0; to++) {
        rc = v->behind[to] == IS_NEW ? survival_give_stand(s, to, e) : GIVEN;
        if (v->behind[to] && rc == GIVEN) {
            rc = pass_gift(s, to, true, v->behind[to], &gift, e);
        }
    }
    return rc < 0 ? rc : GIVEN;
}

int survival_take(struct survival *s, const struct verdict *v, struct err *e)
{
    struct gift gift;
    int64_t averages = 0;
    s->torn = !s->sums && !s->back; /* else what a step needs is still there */
    int behind = v->behind[s->l->env->comm->rank],
        rc = s->is_new ? survival_take_stand(s, v->giver, &averages, e) : GIVEN;
    if (rc == GIVEN) {
        rc = pass_gift(s, v->giver, false, behind, &gift, e);
    }
    if (rc != GIVEN || (rc = move_replica(s, false, e)) < 0) {
        return rc;
    }
    if (s->g) {
        gradients_keep_stats(s->g);
    }
    if (s->is_new && s->back && !s->past) {
        rollback_begin(s->back, averages, &s->l->at);
    }
    s->torn = s->is_new = false;
    s->said = gift;
    return GIVEN;
}

/* What the giver sends to a worker that is behind: the replica, or a sum, and the words that belong
 * to it. See parts.h. */
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Floats that the giver sends: its replica, or the sums of the last step. */
struct floats {
    float *at;
    size_t n;
};
enum { FLOATS_MOST = BLOCKS };

/* Lists them in out[], where they are read or written, and returns their number. */
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

/* Sends the floats to one worker (give), or receives them. The gift goes along. */
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

/* Sends or receives the gift, with the floats if the receiver lacks the result of the step. */
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

/* Moves the replica from the device to the host (fetch), or back. Sums are on the host already. */
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
    int rc = returns ? rollback_return(s->back, e) : 0; /* the last average is sent */
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
    s->torn = !s->sums && !s->back; /* until all has arrived; else the replica is not overwritten */
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

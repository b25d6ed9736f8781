/* How a worker follows a verdict where users' programs have made the steps, which nobody can take
 * back (past.h, docs/decisions/0080, 0081). Workers notice a loss before each step and in
 * exchanges. Some may have completed an exchange in which others still wait:
 *
 *      step      8    9    10   11   12   13   14   15   16
 *      rank 0    █────┼────┼────┼────█────┼────║             has average 12 and sends it
 *      rank 1    █────┼────┼────┼────╫                       receives it and goes on to 14
 *      rank 2    █────┼────┼────┼────╳                       is lost during that average
 *
 * Step 14 is verdict.made, the last step that one of the members has made. Up to there rank 1 must
 * cut its steps as rank 0 did: as if rank 2 still had its part of them. After step 14 both cut
 * their steps without rank 2, and its samples since the last average are handed out again.
 *
 * Workers that average inside groups repeat such an average without the lost worker. The steps that
 * it made before its group's last average are in the replicas of that group, and count if one of
 * these is left.
 *
 * By rounds (hpsgd) the exchange is a sum that all launch at a round's end and need at the end of
 * the next round. A worker that has the sum sends it to the others; if nobody has it, all launch it
 * again (docs/decisions/0085). */
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

/* Adds the steps of this interval to those up to the last average. */
static void count_interval(struct survival *s)
{
    for (int i = 0; i < s->l->env->comm->workers; i++) {
        s->made[i].samples += s->since[i].samples;
        s->made[i].steps += s->since[i].steps;
        s->since[i] = (struct tally){0};
    }
}

/* Uses the average, or the sum, that the giver has sent. */
static int take_average(struct survival *s, struct err *e)
{
    struct lockstep *l = s->l;
    if (s->lent) {
        s->took_sum = true;
        return 0;
    }
    if (s->meeting == MEETS_TO_AVERAGE) {
        survival_take_words(s);
        l->at.left = l->at.left || s->said.left;
        l->at.evaluated_here = false;
        count_interval(s);
        survival_begin_interval(s);
    }
    return rollback_take(s->back, e);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

void survival_lend_sums(struct survival *s, const struct round_sums *sums)
{
    s->lent = sums;
}

bool survival_took_sum(struct survival *s)
{
    bool took = s->took_sum;
    s->took_sum = false;
    return took;
}

/* ---- a group --------------------------------------------------------------------------------- */

/* Is this rank in the group of this worker? */
static bool is_mate(const struct survival *s, int rank)
{
    const struct comm *c = s->l->env->comm;
    bool mate = false;
    for (int i = 0; i < c->n_members[COMM_MINE]; i++) {
        mate = mate || c->members[COMM_MINE][i] == rank;
    }
    return mate;
}

void survival_grouped(struct survival *s)
{
    if (s && s->past) {
        s->grouped = s->l->at.step;
        s->group_averages++;
    }
}

void survival_tell_group(struct survival *s)
{
    struct standing *mine = &s->word.standing;
    const struct members *m = &s->heard.members;
    const struct comm *c = s->l->env->comm;
    if (!s->past || s->is_new) {
        return;
    }
    mine->group = c->n_members[COMM_MINE] > 0 ? c->members[COMM_MINE][0] : c->rank;
    mine->group_averages = s->group_averages;
    for (int i = 0; i < m->n_lost; i++) {
        struct tally until, behind;
        if (s->grouped > 0 && is_mate(s, m->lost[i])) {
            past_count(s->past, m->lost[i], s->grouped, &until, &behind);
            mine->held[i] = s->grouped;
            mine->lost[i].samples += until.samples;
            mine->lost[i].steps += until.steps;
        }
    }
}

/* ---- a loss ---------------------------------------------------------------------------------- */

/* Adds the ranks that this verdict removes to the losses that have not taken effect. */
static int note_loss(struct survival *s, const struct verdict *v, struct err *e)
{
    struct loss *more = realloc(s->losses, ((size_t)s->n_losses + 1) * sizeof *more);
    if (!more) {
        return err_set(e, ERR_MEMORY, "cannot note a lost worker: memory ran out");
    }
    s->losses = more;
    struct loss *loss = &s->losses[s->n_losses++];
    *loss = (struct loss){
        .after = v->made, .members = v->members, .version = v->version, .summed = v->step};
    memcpy(loss->sizes, v->sizes, sizeof loss->sizes);
    for (int i = 0; i < v->members.n_lost; i++) {
        int rank = v->members.lost[i];
        struct tally until, behind;
        if (members_lack(&s->members, rank)) {
            continue;
        }
        if (is_mate(s, rank) && !s->lent) {
            past_count(s->past, rank, v->held[i], &until, &behind);
            s->undone.of_group += (double)behind.samples;
            s->undone.shared = true;
        }
        loss->held[loss->n_newly] = s->lent ? v->step : v->held[i];
        loss->newly[loss->n_newly++] = rank;
    }
    return 0;
}

/* Subtracts what is handed out again from the counts. */
static void forget_work(struct survival *s, const struct loss *loss)
{
    for (int i = 0; i < loss->n_newly; i++) {
        int rank = loss->newly[i];
        struct tally until, behind;
        past_count(s->past, rank, loss->held[i], &until, &behind);
        s->made[rank].samples +=
            s->since[rank].samples + s->launched[rank].samples - behind.samples;
        s->made[rank].steps += s->since[rank].steps + s->launched[rank].steps - behind.steps;
        s->since[rank] = s->launched[rank] = (struct tally){0};
        s->l->at.applied -= behind.samples;
        s->undone.samples += (double)behind.samples;
        if (s->lent) {
            past_count(s->past, rank, s->back->next.step, &until, &behind);
            s->undone.of_group += (double)behind.samples;
        }
    }
}

/* Lets a loss take effect. All members do so after the same step. */
static int lose(struct survival *s, const struct loss *loss, struct err *e)
{
    struct slice *done;
    int n;
    int rc = past_list(s->past, loss->newly, loss->held, loss->n_newly, &done, &n, e);
    if (rc >= 0 &&
        (rc = lockstep_lose(s->l, loss->members.lost, loss->members.n_lost, done, n, e)) >= 0) {
        forget_work(s, loss);
        lockstep_adopt(s->l, loss->version, loss->sizes);
        s->l->next_version = 0;
    }
    free(done);
    return rc;
}

/* Lets the losses take effect whose step is reached. Not within an average of a group, since other
 * groups may not have come so far, nor within the sum at a round's end, since others may have ended
 * that round. */
static int go_on_without(struct survival *s, struct err *e)
{
    bool waits = s->meeting == MEETS_GROUP || s->meeting == MEETS_TO_MERGE;
    int rc = 0, n = 0;
    while (rc >= 0 && n < s->n_losses && !waits && s->l->at.step >= s->losses[n].after) {
        rc = lose(s, &s->losses[n++], e);
    }
    if (n > 0) {
        s->n_losses -= n;
        memmove(s->losses, s->losses + n, (size_t)s->n_losses * sizeof *s->losses);
    }
    if (n > 0 && s->lent) {
        survival_trim_past(s);
    }
    return rc;
}

int survival_arrive(struct survival *s, enum meeting what, struct err *e)
{
    if (!s || !s->past) {
        return 0;
    }
    s->meeting = what;
    return go_on_without(s, e);
}

enum meeting survival_meeting(const struct survival *s)
{
    return s->meeting;
}

void survival_shown(struct survival *s)
{
    if (s && s->past) {
        rollback_keep(s->back);
    }
}

struct undone survival_take_undone(struct survival *s)
{
    struct undone u = s ? s->undone : (struct undone){0};
    if (s) {
        s->undone = (struct undone){0};
    }
    return u;
}

int survival_go_onward(struct survival *s, const struct verdict *v, bool given, struct err *e)
{
    int behind = v->behind[s->l->env->comm->rank];
    if (!given && behind == IS_NEW) {
        return 0;
    }
    int rc = given && behind == IS_BEHIND ? take_average(s, e) : 0;
    if (rc < 0 || (rc = note_loss(s, v, e)) < 0) {
        return rc;
    }
    survival_take_members(s, &v->members);
    rc = behind == IS_BEHIND ? 0 : go_on_without(s, e);
    if (rc < 0 || !given) {
        return rc;
    }
    s->l->best = behind == IS_NEW ? v->best : s->l->best;
    const struct lockstep_mark *last = s->lent ? &s->back->next : &s->back->mark;
    bool lacks = behind == LACKS_EVALUATION || s->l->at.evaluated_here;
    bool here = s->l->at.step == last->step; /* else the evaluation is one from before */
    rc = here && (lacks || !s->lent) ? survival_take_evaluation(s, v, behind, e) : 0;
    if (rc >= 0) {
        rollback_evaluated(s->back);
    }
    return rc;
}

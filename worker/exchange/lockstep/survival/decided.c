/* What every verdict changes, however the worker goes on: members, words, evaluation. See parts.h.
 *  */
#include "common/log.h"
#include "worker/exchange/lockstep/survival/parts.h"

bool survival_is_lost(const struct survival *s, int rank)
{
    return members_lost(&s->heard.members, s->l->env, rank);
}

void survival_take_members(struct survival *s, const struct members *m)
{
    struct comm *c = s->l->env->comm;
    comm_drop(c, m->lost, m->n_lost, m->round);
    s->members = *m;
    if (s->l->env->seats && m->n_lost > 0) {
        c->t->ops->open_door(c->t);
    }
    if (lockstep_is_first(s->l)) {
        log_info("survival", "continues with the present workers",
                 "step=%lld lost=%d there=%d round=%d", (long long)s->l->at.step, m->n_lost,
                 c->n_members[COMM_ALL], m->round);
    }
}

void survival_take_words(struct survival *s)
{
    struct lockstep *l = s->l;
    l->at.stop = s->said.stop;
    l->at.pause = s->said.pause;
    l->at.checkpoint = s->said.checkpoint;
    l->at.evaluate = l->at.evaluate || s->said.evaluate;
    l->asked_checkpoint = l->asked_checkpoint && !l->at.checkpoint;
}

int survival_take_evaluation(struct survival *s, const struct verdict *v, bool behind,
                             struct err *e)
{
    struct lockstep *l = s->l;
    if (!v->evaluated || !(behind || v->first_changed)) {
        return 0;
    }
    /* the keeper's: the first worker may have died before it reported a better one */
    l->best = v->best;
    if (!behind) {
        return lockstep_take_evaluation(l, l->at.last_loss, l->at.last_accuracy, l->at.last_samples,
                                        e);
    }
    l->at.left = s->said.left;
    return lockstep_take_evaluation(l, s->said.test_loss, s->said.test_accuracy,
                                    s->said.test_samples, e);
}

/* See verdict.h. */
#include "worker/exchange/lockstep/survival/verdict.h"

/* Does `a` stand behind `b`? */
static bool is_behind(const struct standing *a, const struct standing *b)
{
    return a->torn || a->is_new || a->step < b->step ||
           (a->step == b->step && a->evaluated < b->evaluated);
}

int verdict_decide(struct verdict *v, const struct standing *of, const int *left, int n,
                   struct err *e)
{
    int giver = -1;
    for (int i = 0; i < n; i++) {
        const struct standing *s = &of[left[i]];
        giver = !s->torn && !s->is_new && (giver < 0 || is_behind(&of[giver], s)) ? left[i] : giver;
    }
    if (giver < 0) {
        return err_set(e, ERR_PEER, "no worker that is left has the state of a step");
    }
    v->giver = giver;
    v->step = of[giver].step;
    v->evaluated = of[giver].evaluated > 0;
    for (int i = 0; i < n; i++) {
        const struct standing *s = &of[left[i]];
        bool apart = of[giver].averages > 0 || s->averages > 0
                         ? of[giver].averages - s->averages > 1
                         : v->step - s->step > 1;
        if (apart && !s->is_new) {
            return err_set(e, ERR_PEER, "worker %d is behind step %lld, and worker %d behind %lld",
                           giver, (long long)v->step, left[i], (long long)s->step);
        }
        v->behind[left[i]] = s->is_new                      ? IS_NEW
                             : !is_behind(s, &of[giver])    ? 0
                             : s->torn || s->step < v->step ? IS_BEHIND
                                                            : LACKS_EVALUATION;
    }
    return 0;
}

/* See verdict.h. */
#include "worker/exchange/lockstep/survival/verdict.h"

/* Does `a` lack something that `b` has? */
static bool is_behind(const struct standing *a, const struct standing *b)
{
    return a->torn || a->is_new || a->step < b->step || a->averages < b->averages ||
           (a->step == b->step && (a->exchanges < b->exchanges || a->evaluated < b->evaluated));
}

/* Is `a` ahead of `than`, or as far and with more steps made? */
static bool gives_better(const struct standing *a, const struct standing *than)
{
    return is_behind(than, a) || (!is_behind(a, than) && a->made > than->made);
}

/* If some of a group have made an average and others have not, the others cannot make it any more:
 * the replicas that went into it are gone. */
static int check_groups(const struct standing *of, const int *left, int n, struct err *e)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) {
            const struct standing *a = &of[left[i]], *b = &of[left[k]];
            if (a->group == b->group && a->averages == b->averages && !a->is_new && !b->is_new &&
                a->group_averages != b->group_averages) {
                return err_set(e, ERR_PEER,
                               "a worker was lost while workers %d and %d averaged inside their "
                               "group, and one of them has not ended that",
                               left[k], left[i]);
            }
        }
    }
    return 0;
}

static void find_made(struct verdict *v, const struct standing *of, const int *left, int n)
{
    for (int i = 0; i < n; i++) {
        const struct standing *s = &of[left[i]];
        v->made = !s->is_new && s->made > v->made ? s->made : v->made;
    }
}

static void find_held(struct verdict *v, const struct standing *of, const int *left, int n)
{
    for (int i = 0; i < v->members.n_lost; i++) {
        v->held[i] = 0;
        for (int k = 0; k < n; k++) {
            int64_t held = of[left[k]].held[i];
            v->held[i] = held > v->held[i] ? held : v->held[i];
        }
    }
}

int verdict_decide(struct verdict *v, const struct standing *of, const int *left, int n,
                   struct err *e)
{
    int giver = -1;
    for (int i = 0; i < n; i++) {
        const struct standing *s = &of[left[i]];
        bool better = giver < 0 || gives_better(s, &of[giver]);
        giver = !s->torn && !s->is_new && better ? left[i] : giver;
    }
    if (giver < 0) {
        return err_set(e, ERR_PEER, "no worker that is left has the state of a step");
    }
    v->giver = giver;
    v->step = of[giver].step;
    v->exchanges = of[giver].exchanges;
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
        bool lacks = s->torn || s->step < v->step || s->averages < of[giver].averages ||
                     s->exchanges < v->exchanges;
        v->behind[left[i]] = s->is_new                   ? IS_NEW
                             : !is_behind(s, &of[giver]) ? 0
                             : lacks                     ? IS_BEHIND
                                                         : LACKS_EVALUATION;
    }
    find_held(v, of, left, n);
    find_made(v, of, left, n);
    return check_groups(of, left, n, e);
}

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

/* The worker that gives to those that are behind; -1: none can. */
static int find_giver(const struct standing *of, const int *left, int n)
{
    int giver = -1;
    for (int i = 0; i < n; i++) {
        const struct standing *s = &of[left[i]];
        bool better = giver < 0 || gives_better(s, &of[giver]);
        giver = !s->torn && !s->is_new && better ? left[i] : giver;
    }
    return giver;
}

/* Is `s` so far behind that no giver can bring it to its own place? */
static bool is_too_far(const struct standing *s, const struct standing *giver)
{
    bool averages = giver->averages > 0 || s->averages > 0;
    int64_t behind = averages ? giver->averages - s->averages : giver->step - s->step;
    return behind > 1 && !s->is_new;
}

static int behind_of(const struct standing *s, const struct standing *giver)
{
    if (s->is_new) {
        return IS_NEW;
    }
    if (!is_behind(s, giver)) {
        return 0;
    }
    bool lacks_step = s->torn || s->step < giver->step || s->averages < giver->averages ||
                      s->exchanges < giver->exchanges;
    return lacks_step ? IS_BEHIND : LACKS_EVALUATION;
}

int verdict_decide(struct verdict *v, const struct standing *of, const int *left, int n,
                   struct err *e)
{
    v->giver = find_giver(of, left, n);
    if (v->giver < 0) {
        return err_set(e, ERR_PEER, "no worker that is left has the state of a step");
    }
    const struct standing *giver = &of[v->giver];
    v->step = giver->step;
    v->exchanges = giver->exchanges;
    v->evaluated = giver->evaluated > 0;
    for (int i = 0; i < n; i++) {
        const struct standing *s = &of[left[i]];
        if (is_too_far(s, giver)) {
            return err_set(e, ERR_PEER, "worker %d is behind step %lld, and worker %d behind %lld",
                           v->giver, (long long)v->step, left[i], (long long)s->step);
        }
        v->behind[left[i]] = behind_of(s, giver);
    }
    find_held(v, of, left, n);
    find_made(v, of, left, n);
    return check_groups(of, left, n, e);
}

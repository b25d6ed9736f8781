/* Sums of a few floats over all ranks, and the errors where the ranks' programs are not at the same
 * place: see lockstep.h. */
#include "worker/exchange/lockstep/steps/lockstep.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"

int lockstep_passes_differ(struct err *e)
{
    err_hint(e,
             "each node's program makes the same number of backward passes in a step: parts of a "
             "batch are more on one node than on another where their size is fixed (x.split(n)), "
             "and not where their number is (x.chunk(k)), but for fewer samples than that");
    return -ERR_DATA;
}

int lockstep_sum_failed(const struct lockstep *l, int rc, struct err *e)
{
    if (rc != -ERR_CONFLICT || !l->env->program.weighed) {
        return rc;
    }
    err_set(e, ERR_DATA,
            "the program of rank %d has made step %lld, and that of another node made one more "
            "backward pass, or is elsewhere",
            l->env->comm->rank, (long long)l->at.step);
    return lockstep_passes_differ(e);
}

int lockstep_sum(struct lockstep *l, float *floats, size_t n, struct err *e)
{
    struct comm *c = l->env->comm;
    allreduce_start(&l->sums, floats, n, n);
    c->watches = true;
    int rc = comm_wait(c, &l->sums.op, e);
    c->watches = false;
    return lockstep_sum_failed(l, rc, e);
}

int lockstep_any(struct lockstep *l, bool mine, struct err *e)
{
    l->sum_words[0] = mine;
    int rc = lockstep_sum(l, l->sum_words, 1, e);
    return rc < 0 ? rc : l->sum_words[0] > 0;
}

/* ---- programs that have left ----------------------------------------------------------------- */

int lockstep_say_left(const struct lockstep *l, const struct left *left, const char *when,
                      int64_t number, const char *what, struct err *e)
{
    char who[48];
    if (left->n == 1) {
        snprintf(who, sizeof(who), "the program of rank %d has", (int)left->who - 1);
    } else {
        snprintf(who, sizeof(who), "%d programs have", left->n);
    }
    err_set(e, left->mine ? ERR_PEER : ERR_CANCELLED,
            "%s left %s %lld and %d go%s on: the loops of all ranks make the same number of %s",
            who, when, (long long)number, left->there, left->there == 1 ? "es" : "", what);
    if (strcmp(what, "steps") == 0) {
        err_hint(e,
                 "a program that was started again counts its own steps from 0: `for step in "
                 "evenstep.steps(n)` has the run's count");
    }
    if (left->mine && l->env->parted) {
        l->env->parted(l->env->ctx, e);
    }
    return -(int)e->code;
}

void lockstep_tell_anew(const struct lockstep *l)
{
    log_warn("sync",
             "the run ends where the other programs have left: this one was started again, and "
             "steps that it counts itself began anew",
             "step=%lld", (long long)l->at.step);
}

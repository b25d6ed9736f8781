/* Each rank's part of a step: see lockstep.h. */
#include "worker/exchange/lockstep/steps/lockstep.h"

#include <string.h>

/* The parts of a full step are the sizes themselves. They are computed once per assignment, since a
 * thousand ranks ask at every step. */
void lockstep_adopt(struct lockstep *l, int version, const int *sizes)
{
    const struct comm *c = l->env->comm;
    l->version = version;
    memcpy(l->sizes, sizes, sizeof l->sizes);
    sample_split(l->env->spec->batching.global_batch, l->sizes, c->workers, l->full);
    l->full_before = 0;
    for (int i = 0; i < c->rank; i++) {
        l->full_before += l->full[i];
    }
}

struct slice lockstep_part(struct lockstep *l, const struct slice *whole, const int64_t **counts)
{
    struct slice mine = *whole;
    int rank = l->env->comm->rank;
    if (whole->count == l->env->spec->batching.global_batch) {
        *counts = l->full;
        mine.start += l->full_before;
        mine.count = l->full[rank];
        return mine;
    }
    sample_split(whole->count, l->sizes, l->env->comm->workers, l->part);
    *counts = l->part;
    for (int i = 0; i < rank; i++) {
        mine.start += l->part[i];
    }
    mine.count = l->part[rank];
    return mine;
}

double lockstep_share(const struct lockstep *l)
{
    return (double)l->counts[l->env->comm->rank] / (double)l->slice.count;
}

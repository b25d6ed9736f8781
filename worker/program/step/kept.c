/* What the next process of a program starts from: parameters and running statistics as they were
 * before its step (FROM_KEPT), or as another rank gave them. Where this rank alone has them, few
 * are copied by the program (WIRE_KEEP), and many by the rank while the program computes:
 *
 *      program   BEGIN (as late as with GRADIENTS) ─ backward pass ─ few: copied ─ step
 *      block          `begun` says so at once ──► many: copied; they stand still until the step
 *
 * A rank that copies them takes them out of the caches of the program's core, and is awake on the
 * same core's other thread: of a network of 76,000 parameters that is a tenth of a step.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/program/engine_parts.h"

enum { FEW_BYTES = 1 << 20 };

enum source kept_source(const struct jobspec *spec)
{
    const struct strategy_ops *strategy = strategy_find(spec->strategy.type);
    bool summed = strategy->program->step == STEP_BY_PROGRAM_ON_SUM;
    return strategy->server ? FROM_SERVER : summed && spec->workers > 1 ? FROM_OTHERS : FROM_KEPT;
}

bool kept_by_program(const struct jobspec *spec)
{
    const struct strategy_ops *strategy = strategy_find(spec->strategy.type);
    size_t floats = spec->network.n_params + spec->network.n_stat_floats;
    return kept_source(spec) == FROM_KEPT && strategy->program->step != STEP_BY_STRATEGY &&
           floats * sizeof(float) <= FEW_BYTES;
}

static size_t kept_floats(const struct program_engine *g)
{
    return g->replica.count[DEV_PARAMS] + g->replica.count[DEV_STATS];
}

int kept_make_room(struct program_engine *g, struct err *e)
{
    if (!g->kept && !(g->kept = malloc(kept_floats(g) * sizeof(float)))) {
        return err_set(e, ERR_MEMORY, "cannot keep the parameters: memory ran out");
    }
    return 0;
}

int kept_take(struct program_engine *g, struct err *e)
{
    const struct dev_replica *r = &g->replica;
    int rc = kept_make_room(g, e);
    if (rc >= 0) {
        memcpy(g->kept, r->host[DEV_PARAMS], r->count[DEV_PARAMS] * sizeof(float));
        memcpy(g->kept + r->count[DEV_PARAMS], r->host[DEV_STATS],
               r->count[DEV_STATS] * sizeof(float));
    }
    return rc;
}

/* The copy is that from before the step of slice `copied`. If the next slice has begun, the step of
 * `answered` is made; of one that died in the step after it nothing may have been heard. */
int kept_save(struct program_engine *g, struct err *e)
{
    const struct block *b = &g->p->block;
    int64_t begun, copied;
    if (g->source != FROM_KEPT) {
        return kept_take(g, e);
    }
    if (!b->copy) {
        return g->own_step != NO_STEP ? 0 : kept_take(g, e);
    }
    begun = atomic_load(&b->shared->begun);
    copied = atomic_load(&b->shared->copied);
    if (begun > g->answered) {
        g->own_step = NO_STEP;
        g->begun_last = begun;
    }
    if (copied <= g->answered - (g->own_step != NO_STEP)) {
        return kept_take(g, e); /* the parameters stand still */
    }
    memcpy(g->kept, b->copy, kept_floats(g) * sizeof(float));
    return 0;
}

void kept_put_back(struct program_engine *g)
{
    const struct dev_replica *r = &g->replica;
    memcpy(r->host[DEV_PARAMS], g->kept, r->count[DEV_PARAMS] * sizeof(float));
    memcpy(r->host[DEV_STATS], g->kept + r->count[DEV_PARAMS], r->count[DEV_STATS] * sizeof(float));
}

void kept_begun(struct program_engine *g)
{
    g->begun_last = g->number;
    g->own_step = NO_STEP;
    if (g->source == FROM_KEPT && !g->p->block.copy && g->kept_before != g->number) {
        kept_take(g, NULL); /* there is room */
        g->kept_before = g->number;
    }
}

void kept_glance(void *ctx)
{
    static const double soon = 1e-4;
    struct program_engine *g = ctx;
    struct wire_shared *shared = g->p->block.shared;
    double now = clock_now(), half = (g->began_pass + g->usual - now) / 2,
           later = (now - g->began_pass) / 4; /* it may begin late, and no step is to be missed */
    if (atomic_load(&shared->begun) == g->number) {
        kept_begun(g);
        granted_tell(g);
    } else {
        double next = half > later ? half : later;
        g->p->link.early = now + (next > soon ? next : soon);
    }
}

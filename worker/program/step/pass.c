/* A backward pass: its weight, its buckets, and what stands for those that it did not give. See
 * pass.h. */
#include <math.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/program/step/pass.h"

/* ---- weights --------------------------------------------------------------------------------- */

/* The weight as strategies take it. A sum was made that of a whole step (of_sum), and as a mean it
 * weighs its samples; where sums are summed they count as they are. */
static double weight_of(const struct program_engine *g, const struct work *w, double told)
{
    bool made_whole = g->base.program.sums && !g->summed;
    return made_whole && told > 0 ? (double)w->slice.count : told;
}

int pass_take_weight(struct program_engine *g, struct pass *pass, double weight, struct err *e)
{
    if (!isfinite(weight) || weight < 0) {
        return err_set(e, ERR_PEER,
                       "%s gives step %lld a weight of %g: a weight is a number of 0 or more",
                       g->p->link.who, (long long)g->number, weight);
    }
    if (pass->weight >= 0 && pass->weight != weight) {
        return err_set(e, ERR_PEER,
                       "%s changed the weight of step %lld from %g to %g within a backward pass",
                       g->p->link.who, (long long)g->number, pass->weight, weight);
    }
    pass->weight = weight;
    if (pass->work) {
        pass->work->weight = weight_of(g, pass->work, weight);
    }
    return 0;
}

/* ---- buckets --------------------------------------------------------------------------------- */

void pass_mark_next(struct program_engine *g, struct pass *pass, bool zero)
{
    const struct dev_bucket *b = &g->base.buckets[g->marked];
    if (zero) {
        memset(g->replica.host[DEV_GRADS] + b->first, 0, b->count * sizeof(float));
    }
    pass->mark(pass->ctx, g->marked++);
}

int pass_take_bucket(struct program_engine *g, struct pass *pass, const struct wire_message *m,
                     struct err *e)
{
    int i = m->bucket.index, rc;
    if (i < 0 || i >= g->base.n_buckets || pass->ready[i]) {
        return err_set(e, ERR_PEER, "%s reported bucket %d of %d, or reported it twice",
                       g->p->link.who, i, g->base.n_buckets);
    }
    if ((rc = pass_take_weight(g, pass, m->bucket.weight, e)) < 0) {
        return rc;
    }
    pass->ready[i] = true;
    while (g->summed && pass->mark && g->marked < g->base.n_buckets && pass->ready[g->marked]) {
        pass_mark_next(g, pass, pass->weight <= 0);
    }
    return 0;
}

/* ---- what becomes of them -------------------------------------------------------------------- */

uint32_t pass_no_step(const struct program_engine *g, bool voided)
{
    return WIRE_SKIP_STEP | (g->summed || voided ? WIRE_VOID : 0);
}

void pass_make_whole(struct program_engine *g)
{
    float *grads = g->replica.host[DEV_GRADS];
    if (g->of_sum != 1) {
        flat_scale(grads, grads, (float)g->of_sum, g->replica.count[DEV_GRADS]);
    }
}

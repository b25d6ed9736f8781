/* Steps that a program makes without GO (WIRE_MADE), where its rank is alone. The rank grants
 * several in advance, and a program with short steps does not wake it for each: it sleeps while the
 * next ones are made, and then hears of all of them.
 *
 *      program   MADE ─ MADE ─ MADE ─ MADE ─ …
 *      rank      sleeps ─────► hears of three, grants three more ─ sleeps ─► …
 *
 * To wake a rank costs the program some 20 µs; a step of a small network takes half a millisecond.
 */
#include <math.h>

#include "common/clock.h"
#include "worker/program/engine_parts.h"

int64_t granted_now(const struct program_engine *g)
{
    return g->granted.last < g->number ? -1 : g->granted.last;
}

/* The first steps show whether steps are lengthened (`paced`), and only a program that copies its
 * parameters itself can go on before the rank has heard of it. */
static int granted_most(const struct program_engine *g)
{
    bool alone = g->base.program.wants_sure && !g->paced,
         several = g->p->block.copy && g->measured >= MEASURED_FIRST;
    return !alone ? 0 : several ? GRANTED_MOST : 1;
}

/* Until half of what is granted is made. A program that waits for an answer now and then would wait
 * for the rank to wake: it has to have made a few steps in a row without one. */
static double nap(const struct program_engine *g)
{
    static const double most = 1e-3, of_long_steps = 2e-3;
    double half = g->granted.each * (double)(g->granted.last - g->number) / 2;
    bool is_short = g->granted.in_row >= GRANTED_MOST && g->granted.each < of_long_steps;
    return is_short && half > 0 ? fmin(half, most) : 0;
}

void granted_begin(struct program_engine *g, int sure)
{
    int most = granted_most(g);
    int64_t last = g->number + (sure < most ? sure : most) - 1;
    g->granted.last = last > g->granted.last ? last : g->granted.last;
    g->p->link.nap = nap(g);
}

void granted_tell(struct program_engine *g)
{
    atomic_store(&g->p->block.shared->granted, g->here > 0 ? granted_now(g) : -1);
}

void granted_made(struct program_engine *g, const struct wire_message *m, double waited)
{
    struct granted *s = &g->granted;
    bool made = m->flags & WIRE_MADE, follows = made && s->in_row > 0;
    double began = follows ? s->at : clock_now() - waited, took = fmax(m->gradients.at - began, 0);
    if (g->base.program.wants_sure) {
        g->base.idle += waited - took;
    }
    if (follows) {
        s->each = s->in_row == 1 ? took : s->each + 0.1 * (took - s->each);
    }
    s->at = m->gradients.at;
    s->in_row = made ? s->in_row + 1 : 0;
}

void granted_break(struct program_engine *g)
{
    g->granted.in_row = 0;
}

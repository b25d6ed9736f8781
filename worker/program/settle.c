/* A program stands still with its step made, so that its parameters, or its own state, may be read:
 * GO comes with WIRE_HOLD, and the program stops at its next BEGIN, EPOCH_END or LEAVE.
 *
 *      program   GRADIENTS ─ waits ─ step ─ BEGIN+AGAIN: one more pass ─ … ─ BEGIN ─ waits ─
 *      rank                  GO+HOLD ►                                             ► read
 *
 * If it ends on the way, its next process goes the same way (again.c), or the parameters stand
 * still without it. Where programs make several passes over a step, all ranks ask each other before
 * an evaluation whether one more follows.
 */
#include "worker/program/engine_parts.h"

/* ---- one rank -------------------------------------------------------------------------------- */

static int check_epoch_end(struct program_engine *g, struct err *e)
{
    return *slice_told(g, g->number) & WIRE_EPOCH_LAST ? 0 : talk_ended_early(g, e);
}

/* What a program says when it has settled: BEGIN of the next step, an epoch's end, or that it
 * leaves. */
static int settled_by(struct program_engine *g, const struct wire_message *m, struct err *e)
{
    switch (m->type) {
    case WIRE_BEGIN:
        g->begun = true;
        g->begun_last = m->slice.number;
        return 0;
    case WIRE_EPOCH_END:
        g->early = g->early || (m->slice.epoch < 0 && g->averages);
        return m->slice.epoch < 0 ? 0 : check_epoch_end(g, e);
    case WIRE_LEAVE:
        return talk_check_leave(g, g->number, e);
    default:
        return talk_unexpected(g, m, e);
    }
}

/* Before an evaluation, of all ranks: does one of them make one more pass, this one if `mine`? 1,
 * and the caller sums it; else 0. */
static int ask(struct program_engine *g, bool mine, struct err *e)
{
    if (g->asks && !g->follows) {
        int rc = g->base.any(g->base.further_ctx, mine, e);
        if (rc < 0) {
            return rc;
        }
        g->asks = g->follows = rc > 0;
    }
    return g->follows;
}

/* What it says when its step is complete. */
static int hear_settled(struct program_engine *g, struct wire_message *m, struct err *e)
{
    int rc;
    while ((rc = talk_hear(g, m, e)) >= 0 && m->type == WIRE_BEGIN && (m->flags & WIRE_AGAIN)) {
        if ((rc = ask(g, true, e)) < 0 || (rc = further_sum(g, WIRE_HOLD, e)) < 0) {
            return rc;
        }
    }
    return rc;
}

static int settle(struct program_engine *g, struct err *e)
{
    struct wire_message m;
    int rc;
    BUG_ON(g->made); /* the strategy was sure */
    if (g->doing == AWAITS_GO && (rc = talk_say(g, WIRE_GO, g->go | WIRE_HOLD, e)) < 0) {
        return rc;
    }
    if (g->doing != WORKS || !g->holding) {
        return 0; /* it is held, has left, or has not begun its first step */
    }
    if ((rc = hear_settled(g, &m, e)) < 0 || (rc = settled_by(g, &m, e)) < 0) {
        return rc;
    }
    g->doing = HELD;
    g->held_at = m.type;
    g->p->phase = PHASE_EXCHANGE;
    return 0;
}

/* ---- and if it ends meanwhile ---------------------------------------------------------------- */

/* The others make one more pass over the step, as far as can be told from the two steps before.
 * Before an evaluation they say so (settle_all), in the middle of an epoch their sums tell
 * (absence.h). */
static bool is_between(const struct program_engine *g)
{
    return g->source == FROM_OTHERS && g->own_step == OWN_STEP && g->answered == g->number &&
           g->passes < g->passes_usual;
}

int settle_survive(struct program_engine *g, int rc, struct err *e)
{
    bool stops = g->own_step == OWN_STEP || again_ends_epoch(g, g->number + 1);
    if ((rc = ended_survive(g, rc, e)) < 0) {
        return rc;
    }
    if (g->asks) {
        return 0; /* settle_all */
    }
    if (is_between(g)) {
        return g->base.further(g->base.further_ctx, 0, PASS_ABSENT, e);
    }
    if (g->source != FROM_KEPT || !stops) {
        return 0; /* the parameters stand still without it */
    }
    rc = again_go_on(g, g->number + 1, WIRE_HOLD, e);
    return rc < 0 ? settle_survive(g, rc, e) : 0;
}

int settle_step(struct program_engine *g, struct err *e)
{
    int rc = settle(g, e);
    while (rc < 0 && (rc = settle_survive(g, rc, e)) >= 0) {
        rc = settle(g, e);
    }
    return rc;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* One more pass, which other ranks make. */
static int go_along(struct program_engine *g, struct err *e)
{
    if (!g->lost) {
        err_set(e, ERR_DATA, "%s made no further backward pass in step %lld, and others made one",
                g->p->link.who, (long long)g->number);
        err_hint(e, "each node's program makes the same number of backward passes in a step");
        return -ERR_DATA;
    }
    g->follows = false;
    return g->base.further(g->base.further_ctx, 0, PASS_ABSENT, e);
}

int settle_all(struct program_engine *g, struct err *e)
{
    int rc;
    g->asks = g->several && g->source == FROM_OTHERS && g->base.any;
    while ((rc = settle_step(g, e)) >= 0 && (rc = ask(g, false, e)) > 0 &&
           (rc = go_along(g, e)) >= 0) {
    }
    g->asks = false;
    return rc;
}

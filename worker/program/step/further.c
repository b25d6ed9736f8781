/* One more backward pass over a step whose first one was summed (WIRE_AGAIN): a GAN's networks have
 * a pass each. Its gradients are summed by themselves.
 *
 *      program   BEGIN ─ GRADIENTS ─ waits ─ step ─ BEGIN+AGAIN ─ GRADIENTS ─ waits ─ step ─ …
 *      rank                            GO ►                                     GO ►
 *
 * It comes when the rank is in the next step already, or where it reads parameters: behind GO. A
 * program that ends between two of them is started again within that step (further_rejoin).
 */
#include <string.h>

#include "common/log.h"
#include "worker/program/step/pass.h"

/* Until its GRADIENTS. */
static int follow_further(struct program_engine *g, struct pass *pass, struct wire_message *m,
                          struct err *e)
{
    int rc;
    *pass = (struct pass){.weight = -1};
    granted_break(g);
    g->own_step = OWN_STEP; /* still to be made */
    while ((rc = talk_hear(g, m, e)) >= 0 && m->type == WIRE_BUCKET) {
        if ((rc = pass_take_bucket(g, pass, m, e)) < 0) {
            return rc;
        }
    }
    if (rc < 0) {
        return rc;
    }
    return m->type == WIRE_GRADIENTS ? pass_take_weight(g, pass, m->gradients.weight, e)
                                     : talk_unexpected(g, m, e);
}

/* What the pass has left in the block, as it is summed; the weight. A step that was left out stays
 * so. */
static double settle_further(struct program_engine *g, const struct pass *pass, uint32_t flags)
{
    struct dev_replica *r = &g->replica;
    double weight = flags & WIRE_VOID ? 0 : pass->weight;
    if (weight <= 0 || (flags & WIRE_HELD_BACK)) {
        memset(r->host[DEV_GRADS], 0, r->count[DEV_GRADS] * sizeof(float));
    }
    pass_make_whole(g);
    g->stays_void = (flags | g->go) & WIRE_VOID;
    if (g->summed || g->stays_void) {
        g->go = pass_no_step(g, g->stays_void);
    }
    g->passes++;
    return weight;
}

/* All ranks' programs do the same, so all sum, wherever each rank is: in its next step, or reading
 * parameters. */
int further_sum(struct program_engine *g, uint32_t flags, struct err *e)
{
    struct comm *c = g->base.env->comm;
    struct pass pass;
    struct wire_message m;
    int rc = follow_further(g, &pass, &m, e);
    if (rc < 0) {
        return rc;
    }
    double begin = comm_now(c), weight = settle_further(g, &pass, m.flags);
    g->follows = false;
    enum further_pass how = m.flags & WIRE_VOID ? PASS_FAILED : PASS_MADE;
    if ((rc = g->base.further(g->base.further_ctx, weight, how, e)) < 0) {
        err_prefix(e, "%s", g->p->link.who);
        return rc;
    }
    if (g->base.idle >= 0) {
        g->base.idle += comm_now(c) - begin;
    }
    return talk_say(g, WIRE_GO, g->go | flags, e);
}

/* Its first pass over the step, or with `further` one that follows, until GRADIENTS. */
static int hear_pass(struct program_engine *g, bool further, struct pass *pass,
                     struct wire_message *m, struct err *e)
{
    int rc = talk_hear(g, m, e);
    if (rc < 0) {
        return rc;
    }
    bool begins = m->type == WIRE_BEGIN && further == !!(m->flags & WIRE_AGAIN),
         is_due = m->slice.number == g->answered;
    bool whole = !further && m->type == WIRE_GRADIENTS && (m->flags & WIRE_WITH_BEGIN) &&
                 m->gradients.number == g->answered;
    return whole              ? pass_take_weight(g, pass, m->gradients.weight, e)
           : begins && is_due ? follow_further(g, pass, m, e)
                              : talk_unexpected(g, m, e);
}

int further_rejoin(struct program_engine *g, struct work *w, struct err *e)
{
    int rc;
    log_warn("program",
             "goes through passes of this step again, with the parameters of now: a state that it "
             "carries from one pass to the next is theirs",
             "step=%lld passes=%d", (long long)g->answered, g->passes);
    for (int i = 0;; i++) {
        struct pass pass = {.weight = -1};
        struct wire_message m;
        if ((rc = hear_pass(g, i > 0, &pass, &m, e)) < 0) {
            return rc;
        }
        if (i == g->passes) {
            w->weight = settle_further(g, &pass, m.flags);
            w->voided = m.flags & WIRE_VOID;
            g->doing = AWAITS_GO;
            return 0;
        }
        if ((rc = talk_say(g, WIRE_GO, WIRE_SKIP_STEP | WIRE_VOID, e)) < 0) {
            return rc;
        }
    }
}

/* What a rank and its program say to each other between steps: messages, GO, and holds.
 *
 * GO is sent late: when the next step begins, so that what `next` pulled is in the block by then;
 * or when a strategy reads parameters (averages, states), which only then must be settled
 * (settle.c). In the second case GO comes with WIRE_HOLD, and the program stops at its next BEGIN,
 * EPOCH_END or LEAVE until it is told to continue.
 *
 * The parameters are the program's between GO and what it says next, and ours at all other times.
 */
#include <unistd.h>

#include "common/clock.h"
#include "worker/program/engine_parts.h"

int talk_unexpected(const struct program_engine *g, const struct wire_message *m, struct err *e)
{
    return err_set(e, ERR_PEER, "%s sent message %u of the protocol out of turn", g->p->link.who,
                   m->type);
}

int talk_hear_with(struct program_engine *g, struct wire_message *m, int *fd, struct err *e)
{
    int rc;
    do {
        if ((rc = link_receive(&g->p->link, m, fd, e)) < 0) {
            return rc;
        }
        if (m->type == WIRE_LOG) {
            metrics_take(&g->metrics, *fd);
            if (g->base.heard) {
                g->base.heard(g->base.further_ctx);
            }
            rc = ASIDE_DONE;
        } else {
            rc = program_aside(g->p, m, *fd, e);
        }
    } while (rc == ASIDE_DONE);
    if (rc >= 0) {
        bool more = m->type == WIRE_BUCKET || (m->type == WIRE_BEGIN && (m->flags & WIRE_AGAIN));
        g->own_step = more ? g->own_step : NO_STEP; /* it is made */
    }
    return rc;
}

int talk_hear(struct program_engine *g, struct wire_message *m, struct err *e)
{
    int fd, rc = talk_hear_with(g, m, &fd, e);
    if (rc == 0 && fd >= 0) {
        close(fd);
    }
    return rc;
}

int talk_say(struct program_engine *g, uint32_t type, uint32_t flags, struct err *e)
{
    struct wire_message m = program_message(type, flags);
    if (type == WIRE_GO || type == WIRE_CONTINUE) {
        g->doing = WORKS;
        g->holding = (flags & WIRE_HOLD) != 0;
    }
    if (type == WIRE_GO && (flags & WIRE_SKIP_STEP)) {
        marks_give(g);
    }
    if (type == WIRE_GO && !(flags & WIRE_SKIP_STEP)) {
        g->own_step = flags & WIRE_DIFFERENCE ? OWN_DIFFERENCE : OWN_STEP;
    }
    return g->lost ? 0 : link_send(&g->p->link, &m, NULL, e);
}

/* A program may end an epoch only where the last slice of one was; a loop that is left early would
 * leave samples out. */
int talk_ended_early(const struct program_engine *g, struct err *e)
{
    return err_set(e, ERR_PEER,
                   "%s ended its epoch early, in step %lld: each epoch has all of its samples",
                   g->p->link.who, (long long)g->number);
}

/* A run that was restarted from its very end begins with a program that leaves. */
static bool may_leave(struct program_engine *g, int64_t last)
{
    uint32_t told = last >= 0 ? *slice_told(g, last) : g->p->resumed ? WIRE_EPOCH_LAST : 0;
    return (told & WIRE_RUN_LAST) || (g->p->open && (told & WIRE_EPOCH_LAST));
}

int talk_check_leave(struct program_engine *g, int64_t last, struct err *e)
{
    if (may_leave(g, last)) {
        return 0;
    }
    g->early = g->quits; /* a loop over steps, or one that stops early */
    if (g->early) {
        return 0;
    }
    err_set(e, ERR_PEER, "%s left after step %lld, before the job's end after epoch %g",
            g->p->link.who, (long long)g->number, g->base.env->spec->epochs);
    err_hint(e, "its loop over epochs and the job's 'epochs' must agree: evenstep.epochs(n)");
    return -ERR_PEER;
}

bool talk_has_quit(const struct program_engine *g)
{
    bool left = g->doing == GONE || (g->doing == HELD && g->held_at == WIRE_LEAVE);
    return left || (g->early && g->doing == HELD && g->held_at == WIRE_EPOCH_END);
}

int talk_check_status(struct program_engine *g, struct err *e)
{
    static const double moment = 3; /* for its last words; one that goes on after it may do so */
    struct child *c = &g->p->child;
    char how[400];
    for (double until = clock_now() + moment; !child_ended(c) && clock_now() < until;) {
        clock_sleep(0.005);
    }
    if (!child_ended(c) || c->status == 0) {
        return 0;
    }
    g->early = false;
    g->p->link.gone = true;
    return err_set(e, ERR_PEER, "%s %s", g->p->link.who, child_epitaph(c, how, sizeof(how)));
}

int talk_go_on(struct program_engine *g, uint32_t flags, struct err *e)
{
    if (g->doing == AWAITS_GO) {
        return talk_say(g, WIRE_GO, g->go | flags, e);
    }
    if (g->doing == HELD && g->held_at == WIRE_LEAVE) {
        int rc = talk_say(g, WIRE_CONTINUE, flags, e);
        g->doing = GONE;
        return rc;
    }
    return g->doing == HELD ? talk_say(g, WIRE_CONTINUE, flags, e) : 0;
}

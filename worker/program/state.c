/* The program's own state: optimizer, schedules, random numbers, whatever it gives
 * (client/protocol.h: SAVE, STATE). To the rank it is bytes, which stand beside a checkpoint
 * (worker/checkpoint/own_files.h) and go to the program of the next attempt with WELCOME.
 *
 *      program   GRADIENTS ─ waits ─ step ─ BEGIN ─────── STATE ─ waits ─
 *      rank                      GO+HOLD ►      SAVE ►               CONTINUE ►
 *
 * The rank asks for it where the next step begins: there all is done that a program does between
 * two steps (it evaluates, its scheduler steps), and an epoch's end is passed. After the last step
 * it asks where the program leaves.
 */
#include <string.h>
#include <unistd.h>

#include "worker/program/engine_parts.h"

/* A program that has ended well, without LEAVE, has nothing more to save. */
static bool ended_well(struct program_engine *g)
{
    return (*slice_told(g, g->sent - 1) & WIRE_RUN_LAST) && child_ended(&g->p->child) &&
           g->p->child.status == 0;
}

static bool is_at_epoch_end(const struct program_engine *g)
{
    return g->doing == HELD && g->held_at == WIRE_EPOCH_END && !talk_has_quit(g);
}

/* Is it held at BEGIN or LEAVE, or where a loop over steps has ended? */
static int reach(struct program_engine *g, struct err *e)
{
    int rc = settle_step(g, e);
    while (rc >= 0 && is_at_epoch_end(g)) {
        if ((rc = talk_go_on(g, WIRE_HOLD, e)) >= 0) {
            rc = settle_step(g, e);
        }
    }
    return rc;
}

static int ask(struct program_engine *g, struct own_state *out, struct err *e)
{
    struct wire_message m = program_message(WIRE_SAVE, 0);
    int fd = -1, rc;
    if ((rc = link_send(&g->p->link, &m, NULL, e)) < 0 ||
        (rc = talk_hear_with(g, &m, &fd, e)) < 0) {
        return rc;
    }
    rc = m.type != WIRE_STATE ? talk_unexpected(g, &m, e)
         : fd >= 0            ? link_read_state(&g->p->link, fd, out, e)
                              : 0;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* Would it answer now? It does where it is held, and where it waits for GO, also after one more
 * pass over a step (further_sum). */
static bool stands_still(const struct program_engine *g)
{
    return !g->lost && (g->doing == AWAITS_GO || g->doing == HELD || g->passes > 1);
}

int state_give(struct program_engine *g, struct own_state *out, struct err *e)
{
    *out = (struct own_state){0};
    if (!stands_still(g)) {
        return err_set(e, ERR_PEER, "%s is not there", g->p->link.who);
    }
    int rc = g->p->about.state ? ask(g, out, e) : 0;
    return rc >= 0 && is_at_epoch_end(g) ? OWN_STATE_AT_EPOCH_END : rc;
}

/* Waits until the program stands still, and, if `out` is not NULL, has given its state. If it ends
 * meanwhile, its next process does the same, or is not started yet (g->lost). */
static int stand(struct program_engine *g, struct own_state *out, struct err *e)
{
    int rc;
    do {
        rc = reach(g, e);
        if (rc >= 0 && out && g->doing == HELD && g->p->about.state) {
            rc = ask(g, out, e);
        }
        if (rc >= 0 || ended_well(g)) {
            break;
        }
    } while ((rc = settle_survive(g, rc, e)) >= 0);
    if (rc < 0 && ended_well(g)) {
        err_clear(e);
        return 0;
    }
    return rc;
}

int state_stand(struct program_engine *g, struct err *e)
{
    return stand(g, NULL, e);
}

int state_take(struct program_engine *g, struct own_state *out, struct err *e)
{
    *out = (struct own_state){0};
    if (g->answered < 0) { /* no step was made: what it goes on from still holds */
        return own_state_copy(out, &g->p->state, e);
    }
    int rc = stand(g, out, e);
    if (rc >= 0 && g->lost && g->source == FROM_OTHERS) {
        return OWN_STATE_AWAY;
    }
    if (rc < 0 || g->lost) {
        return rc < 0 ? rc : own_state_copy(out, &g->p->state, e); /* it comes back with that one */
    }
    own_state_release(&g->p->state);
    return own_state_copy(&g->p->state, out, e);
}

/* The program of a worker that takes the seat of one that died (docs/decisions/0073, 0074). It
 * starts and describes itself before the rank asks to be let in, so nobody waits for that.
 *
 *      program   JOIN ─── waits ──────────────────────────── WELCOME, READY, START ─ slices
 *      a server         rank knocks ─► seat ───────────────►│ its own state of the last checkpoint
 *      no server        rank knocks ─► seat ─► all stop ───►│ parameters and state of another rank
 */
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/program/start/join.h"

/* Meanwhile all others wait in their next sum, for 120 s at most (comm.h). */
static const double enter_seconds = 100;

/* Without a server the program needs another rank's state, unless its optimizer has none. */
static int check_state(const struct program *p, struct err *e)
{
    const struct strategy_ops *strategy = strategy_find(p->ask.spec->strategy.type);
    if (strategy->server || p->about.state || p->about.stateless) {
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "%s cannot come back: its optimizer keeps a state from step to step, which the "
                   "programs do not give",
                   p->link.who);
}

int program_return(struct program *p, const struct program_ask *ask, struct err *e)
{
    join_init(p, ask);
    int rc = enter_start(p, &p->about, e);
    return rc < 0 || (rc = check_state(p, e)) < 0 ? rc : join_apply(p, e);
}

/* ---- under a server -------------------------------------------------------------------------- */

/* Takes its own state from the last checkpoint, if this rank may read that; else its optimizer
 * begins anew. */
static int recall_state(struct program *p, struct err *e)
{
    const struct program_ask *ask = &p->ask;
    struct checkpoint *from = calloc(1, sizeof(*from));
    if (!from) {
        return err_set(e, ERR_MEMORY, "cannot look for a checkpoint: memory ran out");
    }
    bool there =
        checkpoint_begin(ask->job_dir, ask->init, ask->spec, from, NULL) == CHECKPOINT_FOUND;
    int rc =
        there && from->state.n_own > 0
            ? own_state_copy(&p->state, join_state_of(from, from->state.n_own, ask->comm->rank), e)
            : 0;
    checkpoint_release(from);
    free(from);
    return rc;
}

int program_go_on(struct program *p, int64_t epoch, int64_t step, struct err *e)
{
    const struct entry at = {.resumed = true, .epoch = epoch, .step = step};
    int rc;
    if ((rc = recall_state(p, e)) < 0 || (rc = join_make_block(p, e)) < 0 ||
        (rc = enter_welcome(p, &at, e)) < 0) {
        return rc;
    }
    const struct told told = {.epochs = p->epochs, .more = p->more};
    join_settle_epochs(p, &told);
    p->resumed = p->runs = true;
    return 0;
}

/* ---- without a server ------------------------------------------------------------------------ */

int program_await(struct program *p, double epochs, bool open, struct err *e)
{
    struct jobspec *spec = p->ask.spec;
    p->open = open;
    spec->epochs = spec->optimizer.epochs = epochs;
    p->resumed = p->awaits = true;
    return join_make_block(p, e);
}

/* The others' programs end an epoch. The loop of this one over that epoch has no step. What follows
 * the loop it does as they do, after the same average. */
static int end_epoch(struct program_engine *g, const struct entrance *at, struct err *e)
{
    struct wire_message *last = slice_sent(g, g->number);
    *last = program_message(WIRE_SLICE, WIRE_NO_STEP | WIRE_EPOCH_LAST);
    last->slice.epoch = at->at.epoch - 1;
    g->answered = g->number;
    g->holding = true;
    int rc = link_send(&g->p->link, last, NULL, e);
    return rc < 0 ? rc : ahead_send(g, at->parts, at->n_parts, e);
}

int return_enter(struct program_engine *g, const struct entrance *at, const struct own_state *state,
                 struct err *e)
{
    struct program *p = g->p;
    const struct entry entry = {
        .resumed = true, .epoch = at->at.epoch - at->ends_epoch, .step = at->made};
    int rc;
    if (!p->about.stateless && state->n == 0) {
        return ended_no_state(g, e);
    }
    program_phase(p, PHASE_LOAD);
    p->link.until = clock_now() + enter_seconds;
    p->link.task = "its start";
    if ((rc = own_state_copy(&p->state, state, e)) < 0 || (rc = kept_take(g, e)) < 0 ||
        (rc = enter_welcome(p, &entry, e)) < 0) {
        return rc;
    }
    kept_put_back(g);
    p->link.until = 0;
    p->awaits = g->lost = false;
    p->runs = true;
    g->quits = p->epochs > 0;
    g->number = at->made - 1; /* as on all other ranks */
    g->sent = at->made;
    *slice_told(g, g->number) = at->at.position == 0 ? WIRE_EPOCH_LAST : 0;
    log_info("program", "goes on", "incarnation=%d slice=%lld optimizer_state=\"%s\"",
             p->incarnation, (long long)at->made, p->about.stateless ? "none" : "another rank's");
    rc = talk_say(g, WIRE_START, WIRE_RESUMED, e);
    return rc < 0 || !at->ends_epoch ? rc : end_epoch(g, at, e);
}

/* A program has ended, or hangs: whether the rank goes on, and what is told of it. A program that
 * ends three times without ten good steps in between ends the job, as does one that ends before its
 * first step, or that says that it would fail again (es_refused). */
#include <stdio.h>

#include "common/log.h"
#include "worker/program/engine_parts.h"

enum { CRASHES_MOST = 3, GOOD_STEPS = 10 };

bool ended_is_known(const struct program_engine *g)
{
    return !g->lost || g->source != FROM_OTHERS || g->own_step == NO_STEP;
}

static void count_end(struct program_engine *g, const struct err *e)
{
    if (g->good >= GOOD_STEPS) {
        g->crashes = g->own_ends = 0;
    }
    g->crashes++;
    g->own_ends += program_ended_itself(g->p, e);
    g->good = 0;
}

/* What the program did three times it would do in another attempt; what was done to it, it might
 * not meet there. */
static int end_for_good(const struct program_engine *g, struct err *e)
{
    if (g->own_ends >= CRASHES_MOST && e->code == ERR_PEER) {
        e->code = ERR_INVALID;
    }
    return err_prefix(e, "three times in a row, without %d good steps in between", (int)GOOD_STEPS);
}

/* What ends the job is told with the end of its own program, not with one that was survived. */
static void take_why(struct program_engine *g, struct err *e)
{
    g->why = *e;
    g->why_end = g->p->child.end;
    g->p->child.end.there = false;
    err_clear(e);
}

void ended_give_why(const struct program_engine *g, struct err *e)
{
    *e = g->why;
    g->p->child.end = g->why_end;
}

/* It exited behind its last step: its samples are done. */
static bool failed_behind_all(struct program_engine *g, const struct err *e)
{
    uint32_t told = *slice_told(g, g->sent - 1) & (WIRE_RUN_LAST | WIRE_STOP);
    bool all = told == WIRE_RUN_LAST && g->answered == g->sent - 1 && g->own_step == NO_STEP,
         left = g->doing == GONE && g->ends;
    return (all || left) && g->p->link.gone && e->code == ERR_PEER && child_exited(&g->p->child);
}

/* What a program that has ended did before its first step, or by an exit behind its last one,
 * another process would do as well, so the job has failed (p->refused). */
static void judge(struct program_engine *g, struct err *e)
{
    if (g->answered < 0) {
        program_judge(g->p, e);
    } else if (failed_behind_all(g, e)) {
        e->code = ERR_INVALID;
        g->p->refused = true;
        err_prefix(e, "after its last step");
    }
}

int ended_survive(struct program_engine *g, int rc, struct err *e)
{
    char why[600], text[400], said[500];
    const struct telemetry *t = g->base.env->telemetry;
    judge(g, e);
    if (!g->p->link.gone || g->answered < 0 || g->doing == GONE || g->p->refused) {
        return rc;
    }
    count_end(g, e);
    if (g->crashes >= CRASHES_MOST) {
        return end_for_good(g, e);
    }
    program_end_said(&g->p->child.end, text, sizeof(text));
    log_warn("program", "is started again", "crash=%d of=%d why=%s said=%s", g->crashes,
             CRASHES_MOST, log_quote(why, sizeof(why), e->message),
             log_quote(said, sizeof(said), text));
    if (t->crashed) {
        t->crashed(t->ctx, e->message);
    }
    take_why(g, e);
    rc = g->lost ? 0 : kept_save(g, e);
    g->lost = true;
    g->returned = g->holding = g->gave = false;
    g->doing = WORKS;
    return rc;
}

/* The coordinator compares this end with that of the next attempt (failure_repeats). */
int ended_all(struct program_engine *g, struct err *e)
{
    const struct wire_message *at = slice_sent(g, g->number);
    int64_t batch = g->base.env->spec->batching.global_batch;
    struct program_end *end = &g->p->child.end;
    ended_give_why(g, e);
    e->code = ERR_PROGRAM;
    end->step = at->slice.start / (batch > 0 ? batch : 1) + 1;
    end->epoch = at->slice.epoch + 1;
    return err_prefix(e, "the programs of all ranks ended in step %lld of epoch %lld; here",
                      (long long)end->step, (long long)end->epoch);
}

int ended_no_state(const struct program_engine *g, struct err *e)
{
    char named[80] = "", why[200];
    if (g->p->about.optimizer_name[0]) {
        snprintf(named, sizeof(named), " '%s'", g->p->about.optimizer_name);
    }
    snprintf(why, sizeof(why),
             "its optimizer%s keeps a state from step to step, which the programs do not give",
             named);
    child_gave_up(&g->p->child, why);
    err_set(e, ERR_UNSUPPORTED, "%s cannot go on: %s", g->p->link.who, why);
    err_hint(e,
             "a program in C gives its state where it says has_state (es_join), one with arrays "
             "where it says join(save=function)");
    return -ERR_UNSUPPORTED;
}

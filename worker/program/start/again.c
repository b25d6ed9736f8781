/* A program that ended, or that hangs, is started again, and the rank goes on with it. The block is
 * the rank's, so slices and parameters are still there. Where the rest is depends on who makes the
 * steps (strategy_ops.server, enum step_maker):
 *
 *     this rank alone (averaging, `hpsgd`, one worker)                 FROM_KEPT
 *         A copy of the parameters from before its step is kept here. A step that it had begun is
 *         made again: from the same parameters, with the same samples.
 *     a server                                                         FROM_SERVER
 *         The new process waits. The slice goes back to the server, which answers with its newest
 *         parameters, and with a slice.
 *     all programs, the same step (`sync`)                             FROM_OTHERS
 *         This rank takes part in the step's sums with gradients of zero, which tells the others.
 *         One of them gives parameters and the program's own state, the new process computes the
 *         slice, and its gradients join before anybody makes the step (survival/absence.c). Where
 *         it ended between two passes over a step (a GAN's), that step is the one before.
 *
 * In each case a slice counts once. Which ends are survived: ended.c.
 */
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/program/engine_parts.h"
#include "worker/program/start/enter.h"

/* Others wait for at most 120 s in an exchange (comm.h). This rank fails before, since its message
 * says more than theirs. */
static const double return_seconds = 100;

int again_init(struct program_engine *g, struct err *e)
{
    g->source = kept_source(g->base.env->spec);
    g->answered = g->begun_last = g->kept_before = g->unended = -1;
    return g->source == FROM_KEPT ? kept_make_room(g, e) : 0; /* else made when it is needed */
}

/* ---- the next process ------------------------------------------------------------------------ */

static int check_same(struct program_engine *g, struct description *mine, struct err *e)
{
    struct description first;
    const char *text = g->p->about.text;
    int rc = description_read(&first, text, strlen(text), e);
    if (rc < 0) {
        return rc;
    }
    rc = description_compare(mine, &first, g->base.env->comm->rank, e);
    description_release(&first);
    if (rc < 0) {
        rc = err_prefix(e, "%s was started again and is not the one that joined", g->p->link.who);
        link_refuse(&g->p->link, e->message);
    }
    return rc;
}

bool again_ends_epoch(struct program_engine *g, int64_t first)
{
    bool others_did = g->source == FROM_OTHERS && first < g->sent;
    return !others_did && g->answered == first - 1 && g->begun_last < first &&
           (*slice_told(g, first - 1) & WIRE_EPOCH_LAST);
}

/* The epoch of the loop that it begins with, or ends. */
static int64_t entry_epoch(struct program_engine *g, int64_t first)
{
    bool end = again_ends_epoch(g, first) || first >= g->sent;
    return slice_sent(g, end ? first - 1 : first)->slice.epoch;
}

/* Starts the next process, up to READY. Then the block holds what was kept. `first`: the slice that
 * it begins with. */
static int enter(struct program_engine *g, int64_t first, struct err *e)
{
    struct program *p = g->p;
    struct description about;
    const struct entry at = {.resumed = true, .epoch = entry_epoch(g, first), .step = first};
    int rc;
    program_phase(p, PHASE_LOAD);
    enter_undo(p, 0);
    p->incarnation++;
    p->ready_by = clock_now() + return_seconds;
    if ((rc = enter_start(p, &about, e)) < 0) {
        return rc;
    }
    rc = check_same(g, &about, e);
    description_release(&about);
    if (rc < 0 || (rc = enter_welcome(p, &at, e)) < 0) {
        return rc;
    }
    kept_put_back(g);
    block_begin(&p->block);
    p->link.until = 0;
    g->here = 0;
    g->cpu.steps = 0;
    granted_break(g);
    return 0;
}

/* Nobody else has the state of its optimizer. Logs what is lost, and what makes that less. */
static void tell_older_state(const struct program_engine *g)
{
    if (g->source == FROM_OTHERS || g->p->about.stateless) {
        return;
    }
    log_warn("program",
             g->p->state.n > 0 ? "its optimizer goes on from the last checkpoint"
                               : "its optimizer begins anew, since there is no checkpoint yet",
             "hint=\"checkpoints that are taken more often keep more: --set "
             "/checkpoint/every_steps=N\"");
}

/* Sends START, and again the slices from `first` on that were sent before. */
static int begin(struct program_engine *g, int64_t first, struct err *e)
{
    struct wire_message end = program_message(WIRE_SLICE, WIRE_NO_STEP);
    int rc;
    g->lost = g->returned = false;
    g->own_step = first == g->answered ? OWN_STEP : NO_STEP;
    if ((rc = talk_say(g, WIRE_START, WIRE_RESUMED, e)) >= 0 && again_ends_epoch(g, first)) {
        end.flags |= *slice_told(g, first - 1);
        end.slice.epoch = slice_sent(g, first - 1)->slice.epoch;
        rc = link_send(&g->p->link, &end, NULL, e);
    }
    for (int64_t i = first; i < g->sent && rc >= 0; i++) {
        struct wire_message m = *slice_sent(g, i);
        m.flags = *slice_told(g, i);
        rc = link_send(&g->p->link, &m, NULL, e);
    }
    tell_older_state(g);
    const char *state = g->p->about.stateless      ? "none"
                        : g->p->state.n == 0       ? "begins anew"
                        : g->source == FROM_OTHERS ? "another rank's"
                                                   : "of the last checkpoint";
    log_info("program", "goes on", "incarnation=%d slice=%lld optimizer_state=\"%s\"",
             g->p->incarnation, (long long)first, state);
    return rc;
}

/* Makes the step that the last process had begun. The strategy has its gradients already. */
static int make_step_again(struct program_engine *g, uint32_t hold, struct err *e)
{
    struct wire_message m;
    int rc;
    do {
        if ((rc = talk_hear(g, &m, e)) < 0) {
            return rc;
        }
        bool due = m.type == WIRE_BUCKET || m.type == WIRE_GRADIENTS ||
                   (m.type == WIRE_BEGIN && m.slice.number == g->answered);
        if (!due) {
            return talk_unexpected(g, &m, e);
        }
        g->own_step = OWN_STEP; /* still to be made */
    } while (m.type != WIRE_GRADIENTS);
    if (!g->summed) {
        pass_make_whole(g);
    }
    return talk_say(g, WIRE_GO, hold, e);
}

int again_go_on(struct program_engine *g, int64_t next, uint32_t hold, struct err *e)
{
    bool again = g->own_step == OWN_STEP;
    int64_t first = again ? g->answered : next;
    int rc;
    if ((rc = enter(g, first, e)) < 0 || (rc = begin(g, first, e)) < 0) {
        return rc;
    }
    g->holding = hold && again_ends_epoch(g, first);
    return again ? make_step_again(g, hold, e) : 0;
}

/* ---- where it may end ------------------------------------------------------------------------ */

/* This rank takes part in the step with gradients of zero in each bucket that it has not handed
 * over. */
static int stand_aside(struct program_engine *g, struct work *w, struct dev_result *out,
                       dev_mark_fn *mark, void *ctx)
{
    *out = (struct dev_result){.finite = true, .absent = true, .given = g->marked};
    w->weight = 0;
    for (; g->marked < g->base.n_buckets; g->marked++) {
        const struct dev_bucket *b = &g->base.buckets[g->marked];
        memset(g->replica.host[DEV_GRADS] + b->first, 0, b->count * sizeof(float));
        mark(ctx, g->marked);
    }
    return 0;
}

/* FROM_SERVER: the new process waits for what the server answers. */
static int wait_for_server(struct program_engine *g, struct err *e)
{
    int64_t epoch = entry_epoch(g, g->number) + again_ends_epoch(g, g->number);
    int rc = enter(g, g->number, e);
    if (rc >= 0) {
        g->sent = g->number;
        *slice_told(g, g->number) = 0;
        g->unended = epoch;
        g->returned = true;
    }
    return rc;
}

int again_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                  dev_mark_fn *mark, void *ctx, struct err *e)
{
    double began = comm_now(g->base.env->comm), away = 0;
    int rc = 0;
    g->marked = 0;
    for (;;) {
        if (g->lost && g->source == FROM_OTHERS) {
            return stand_aside(g, w, out, mark, ctx);
        }
        if (g->lost && g->source == FROM_SERVER) {
            rc = wait_for_server(g, e);
            if (rc >= 0) {
                *out = (struct dev_result){.correct = -1, .finite = true, .absent = true};
                return 0;
            }
        } else if (g->lost && (rc = again_go_on(g, g->number, 0, e)) >= 0) {
            away = comm_now(g->base.env->comm) - began;
            program_phase(g->p, PHASE_COMPUTE);
        }
        if (rc >= 0) {
            g->marked = g->source == FROM_OTHERS ? g->marked : 0;
            g->base.idle = 0;
            rc = first_compute(g, w, out, mark, ctx, e);
            g->base.idle += away;
        }
        if (rc >= 0 || (rc = ended_survive(g, rc, e)) < 0) {
            return rc;
        }
    }
}

static void mark_nothing(void *ctx, int bucket)
{
    (void)ctx;
    (void)bucket;
}

/* The gradients go into sums that the strategy holds, so no bucket is handed over. */
static int resume(struct program_engine *g, struct work *w, struct dev_result *out,
                  double *compute_s, struct err *e)
{
    struct comm *c = g->base.env->comm;
    int64_t first = w->further ? g->answered : g->number;
    int rc;
    if ((rc = enter(g, first, e)) < 0 || (rc = begin(g, first, e)) < 0) {
        return rc;
    }
    if (w->further) {
        return further_rejoin(g, w, e);
    }
    double began = comm_now(c);
    g->base.idle = 0;
    program_phase(g->p, PHASE_COMPUTE);
    rc = first_compute(g, w, out, mark_nothing, NULL, e);
    *compute_s = comm_now(c) - began - g->base.idle;
    program_phase(g->p, PHASE_EXCHANGE);
    return rc;
}

int again_resume(struct program_engine *g, struct work *w, const struct own_state *state,
                 struct dev_result *out, double *compute_s, struct err *e)
{
    int rc;
    if (!state) {
        return ended_all(g, e);
    }
    if (!g->p->about.stateless && state->n == 0) {
        return ended_no_state(g, e);
    }
    own_state_release(&g->p->state);
    if ((rc = own_state_copy(&g->p->state, state, e)) < 0 || (rc = kept_take(g, e)) < 0) {
        return rc;
    }
    do {
        if ((rc = resume(g, w, out, compute_s, e)) >= 0) {
            return rc;
        }
    } while ((rc = ended_survive(g, rc, e)) >= 0);
    return rc;
}

int again_take(struct program_engine *g, const struct own_state *state, struct err *e)
{
    int rc;
    if (!state) {
        return ended_all(g, e);
    }
    own_state_release(&g->p->state);
    if ((rc = own_state_copy(&g->p->state, state, e)) < 0 || (rc = kept_take(g, e)) < 0) {
        return rc;
    }
    g->own_step = NO_STEP; /* the others have made it */
    return 0;
}

int again_load(struct program_engine *g, const struct work *w, struct err *e)
{
    bool same = g->returned; /* the slice that went back to the server is due once more */
    int rc = same ? begin(g, g->number, e) : 0;
    if (rc < 0 && (rc = ended_survive(g, rc, e)) < 0) {
        return rc;
    }
    g->number += !same;
    return ahead_load(g, w, e);
}

int again_end(struct program_engine *g, struct err *e)
{
    int64_t next = g->returned ? g->number : g->number + 1;
    int rc = 0;
    if (!ended_is_known(g)) {
        ended_give_why(g, e);
        e->code = program_ended_itself(g->p, e) ? ERR_PROGRAM : ERR_PEER;
        return err_prefix(e, "it ended in its last step, and its parameters with it");
    }
    if (g->lost && !g->returned) {
        rc = enter(g, next, e);
    }
    return rc >= 0 && g->lost ? begin(g, next, e) : rc;
}

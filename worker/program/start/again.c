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

/* Others wait for at most 120 s in an exchange (comm.h), and what the rank then says is worth more
 * than what they would. */
static const double return_seconds = 100;

enum source again_source(const struct jobspec *spec)
{
    const struct strategy_ops *strategy = strategy_find(spec->strategy.type);
    bool summed = strategy->program->step == STEP_BY_PROGRAM_ON_SUM;
    return strategy->server ? FROM_SERVER : summed && spec->workers > 1 ? FROM_OTHERS : FROM_KEPT;
}

int again_init(struct program_engine *g, struct err *e)
{
    g->source = again_source(g->base.env->spec);
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

/* The step before `first` is made, but the epoch that it ended is not: its evaluation is due. Not
 * where the others have made it, since the state that they give is one from behind it. */
static bool ends_epoch(struct program_engine *g, int64_t first)
{
    bool others_did = g->source == FROM_OTHERS && first < g->sent;
    return !others_did && g->answered == first - 1 && g->begun_last < first &&
           (*ahead_told(g, first - 1) & WIRE_EPOCH_LAST);
}

/* The epoch whose loop it begins with, or ends. */
static int64_t entry_epoch(struct program_engine *g, int64_t first)
{
    bool end = ends_epoch(g, first) || first >= g->sent;
    return ahead_slice(g, end ? first - 1 : first)->slice.epoch;
}

/* Starts it, up to READY; what is kept is in the block then. `first`: the slice that it begins
 * with. */
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
    return 0;
}

/* Nobody else has what the optimizer had: what it loses, and what keeps that small. */
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

/* START, and the slices from `first` on that were sent before. */
static int begin(struct program_engine *g, int64_t first, struct err *e)
{
    struct wire_message end = program_message(WIRE_SLICE, WIRE_NO_STEP);
    int rc;
    g->lost = g->returned = false;
    g->own_step = first == g->answered ? OWN_STEP : NO_STEP;
    if ((rc = talk_say(g, WIRE_START, WIRE_RESUMED, e)) >= 0 && ends_epoch(g, first)) {
        end.flags |= *ahead_told(g, first - 1);
        end.slice.epoch = ahead_slice(g, first - 1)->slice.epoch;
        rc = link_send(&g->p->link, &end, NULL, e);
    }
    for (int64_t i = first; i < g->sent && rc >= 0; i++) {
        struct wire_message m = *ahead_slice(g, i);
        m.flags = *ahead_told(g, i);
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

/* The step that the last process had begun. The strategy has had its gradients. */
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

/* FROM_KEPT: on from the parameters that are kept; `next` is the slice that is due. */
static int go_on(struct program_engine *g, int64_t next, uint32_t hold, struct err *e)
{
    bool again = g->own_step == OWN_STEP;
    int64_t first = again ? g->answered : next;
    int rc;
    if ((rc = enter(g, first, e)) < 0 || (rc = begin(g, first, e)) < 0) {
        return rc;
    }
    g->holding = hold && ends_epoch(g, first);
    return again ? make_step_again(g, hold, e) : 0;
}

/* ---- where it may end ------------------------------------------------------------------------ */

/* The others make one more pass over the step, as far as can be told from the two steps before.
 * Before an evaluation they say so (again_settle_all), in the middle of an epoch their sums tell
 * (absence.h). */
static bool is_between(const struct program_engine *g)
{
    return g->source == FROM_OTHERS && g->own_step == OWN_STEP && g->answered == g->number &&
           g->passes < g->passes_usual;
}

int again_settle(struct program_engine *g, int rc, struct err *e)
{
    bool stops = g->own_step == OWN_STEP || ends_epoch(g, g->number + 1);
    if ((rc = ended_survive(g, rc, e)) < 0) {
        return rc;
    }
    if (g->asks) {
        return 0; /* again_settle_all */
    }
    if (is_between(g)) {
        return g->base.further(g->base.further_ctx, 0, PASS_ABSENT, e);
    }
    if (g->source != FROM_KEPT || !stops) {
        return 0; /* the parameters stand still without it */
    }
    rc = go_on(g, g->number + 1, WIRE_HOLD, e);
    return rc < 0 ? again_settle(g, rc, e) : 0;
}

int again_ask(struct program_engine *g, bool mine, struct err *e)
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

int again_settle_all(struct program_engine *g, struct err *e)
{
    int rc;
    g->asks = g->several && g->source == FROM_OTHERS && g->base.any;
    while ((rc = talk_settle(g, e)) >= 0 && (rc = again_ask(g, false, e)) > 0 &&
           (rc = go_along(g, e)) >= 0) {
    }
    g->asks = false;
    return rc;
}

/* This rank takes part in the step with nothing: buckets that were not handed over are zero. */
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
    int64_t epoch = entry_epoch(g, g->number) + ends_epoch(g, g->number);
    int rc = enter(g, g->number, e);
    if (rc >= 0) {
        g->sent = g->number;
        *ahead_told(g, g->number) = 0;
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
        } else if (g->lost && (rc = go_on(g, g->number, 0, e)) >= 0) {
            away = comm_now(g->base.env->comm) - began;
            program_phase(g->p, PHASE_COMPUTE);
        }
        if (rc >= 0) {
            g->marked = g->source == FROM_OTHERS ? g->marked : 0;
            g->base.idle = 0;
            rc = pass_compute(g, w, out, mark, ctx, e);
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

/* The gradients go into sums that the strategy holds; nothing is handed over on the way. */
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
    rc = pass_compute(g, w, out, mark_nothing, NULL, e);
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
    if ((rc = state_copy(&g->p->state, state, e)) < 0 || (rc = kept_take(g, e)) < 0) {
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
    if ((rc = state_copy(&g->p->state, state, e)) < 0 || (rc = kept_take(g, e)) < 0) {
        return rc;
    }
    g->own_step = NO_STEP; /* the others have made it */
    return 0;
}

int again_load(struct program_engine *g, struct err *e)
{
    return g->returned ? begin(g, g->number, e) : 0;
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

/* The calls that the strategy and the engine make into the trainer. They know neither each other
 * nor telemetry.
 *
 *     strategy ─ rank_env ─► hooks ─┬─► telemetry    rows, minibatches, who is lost
 *                                   └─► engine       its state, its marks
 *     engine ── further, any ─► hooks ─► strategy    one more pass of a step
 */
#include "worker/training/parts.h"

#include <math.h>

int hooks_check_handed(const struct trainer *t, struct err *e)
{
    const struct err *failed = &t->strategy->failed;
    if (failed->code != ERR_NONE) {
        *e = *failed;
        return err_prefix(e, "cannot hand over the gradients of step %lld",
                          (long long)t->local_step);
    }
    return 0;
}

/* ---- what the strategy asks ------------------------------------------------------------------ */

/* Adds the time for loading data, which strategies do not know, to a row. */
static void tell_row(void *ctx, const struct row *row)
{
    struct trainer *t = ctx;
    struct telemetry *to = t->env->telemetry;
    struct row full = *row;
    double within = fmin(t->engine->loading, row->compute_seconds);
    full.compute_seconds -= (float)within;
    full.load_seconds = (float)(t->load_seconds + within);
    full.exchange_seconds += (float)t->handing;
    to->row(to->ctx, &full);
    layer_norms_tell(t->norms, row, to);
    t->at = (struct logged_point){.step = row->step, .epoch = row->epoch, .time = row->time};
    if (!t->stepped) { /* what the program logged before its first step belongs to it */
        t->stepped = true;
        trainer_tell_logged(t);
    }
}

static void hear_logged(void *ctx)
{
    trainer_tell_logged(ctx);
}

static void tell_evaluated(void *ctx, const struct evaluation *ev)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->evaluated(t->ctx, ev);
}

static void ask_control(void *ctx, struct control *out)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->control(t->ctx, out);
}

static int ask_lost(void *ctx, int *out)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    return t->lost(t->ctx, out);
}

static int ask_seats(void *ctx, int *out)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    return t->seats(t->ctx, out);
}

static void tell_undone(void *ctx, int staleness, int64_t steps, int64_t samples)
{
    struct telemetry *t = ((struct trainer *)ctx)->env->telemetry;
    t->undone(t->ctx, staleness, steps, samples);
}

static bool is_ready(void *ctx, int batch)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->ready(g, batch);
}

static void set_aside(void *ctx, bool on)
{
    trainer_phase(ctx, on ? PHASE_CHECKPOINT : PHASE_EXCHANGE);
}

static int own_state(void *ctx, struct own_state *out, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->own_state(g, out, e);
}

static int give(void *ctx, struct own_state *out, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->give(g, out, e);
}

static int resume(void *ctx, struct work *w, const struct own_state *state, struct dev_result *out,
                  double *compute_s, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->resume(g, w, state, out, compute_s, e);
}

static int take(void *ctx, const struct own_state *state, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->take(g, state, e);
}

static int enter(void *ctx, const struct entrance *at, const struct own_state *state, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->enter(g, at, state, e);
}

static bool mark(void *ctx, float *out)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->mark(g, out);
}

static int differs(void *ctx, size_t mark, double off, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    return g->ops->differs(g, mark, off, e);
}

static void parted(void *ctx, struct err *e)
{
    struct engine *g = ((struct trainer *)ctx)->engine;
    if (g->ops->parted) {
        g->ops->parted(g, e);
    }
}

/* ---- what the engine asks (see engine.h) ----------------------------------------------------- */

static int sum_further(void *ctx, double weight, enum further_pass how, struct err *e)
{
    struct trainer *t = ctx;
    const struct strategy_ops *ops = t->strategy->ops;
    struct engine *g = t->engine;
    struct work w = {.action = DO_TRAIN,
                     .weight = weight,
                     .voided = how == PASS_FAILED,
                     .further = true,
                     .absent = how == PASS_ABSENT};
    if (!ops->on_further) {
        err_set(e, ERR_UNSUPPORTED,
                "one more backward pass cannot join the step's gradients, which '%s' has taken",
                catalog_get(ops->id)->name);
        err_hint(e, "add the losses and make one backward pass, or take the strategy sync");
        return -ERR_UNSUPPORTED;
    }
    for (int b = 0; b < g->n_buckets; b++) {
        ops->on_bucket(t->strategy, &w, &g->buckets[b], b, g->n_buckets);
    }
    int rc = hooks_check_handed(t, e);
    return rc < 0 ? rc : ops->on_further(t->strategy, &w, e);
}

static int ask_any(void *ctx, bool mine, struct err *e)
{
    struct trainer *t = ctx;
    return t->strategy->ops->any(t->strategy, mine, e);
}

/* ---- both of them ---------------------------------------------------------------------------- */

static void fill_rank(struct trainer *t)
{
    t->rank.replica = t->engine->replica;
    t->rank.program = t->engine->program;
    t->rank.mark = mark;
    t->rank.differs = differs;
    t->rank.parted = parted;
    t->rank.ctx = t;
    t->rank.row = tell_row;
    t->rank.evaluated = tell_evaluated;
    t->rank.control = ask_control;
    t->rank.ready = is_ready;
    t->rank.aside = set_aside;
    t->rank.own_state = own_state;
    t->rank.local_step = t->local_step;
    if (t->env->outlives_worker) {
        t->rank.lost = ask_lost;
        t->rank.undone = tell_undone;
    }
    if (t->env->takes_back) {
        t->rank.seats = ask_seats;
    }
    t->rank.comes_back = t->env->join != NULL;
    if (t->engine->ops->resume) {
        t->rank.give = give;
        t->rank.resume = resume;
        t->rank.take = take;
        t->rank.enter = enter;
    }
}

void hooks_fill(struct trainer *t, const struct strategy_ops *ops)
{
    fill_rank(t);
    t->engine->job_start = t->rank.job_start;
    t->engine->further = sum_further;
    t->engine->any = ops->any ? ask_any : NULL;
    t->engine->heard = hear_logged;
    t->engine->further_ctx = t;
}

/* The engine of a user's program (worker/engine.h): the trainer's calls become messages to it.
 *
 *      trainer    load        compute               on_gradients, next         load, compute
 *      rank       SLICE ►     ► wait for buckets    sums, pushes, pulls        SLICE ► GO ►
 *      program        BEGIN ─ BUCKET … ─ GRADIENTS ─ waits ─────────────────── step ─ BEGIN
 *
 * The table is here, with start, evaluation and end; engine_parts.h names the files of the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/program/engine_parts.h"

static struct program_engine *of(struct engine *base)
{
    return (struct program_engine *)base;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int load(struct engine *base, const struct work *w, struct err *e)
{
    return again_load(of(base), w, e);
}

static int compute(struct engine *base, struct work *w, struct dev_result *out, dev_mark_fn *mark,
                   void *ctx, struct err *e)
{
    return again_compute(of(base), w, out, mark, ctx, e);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* The strategy's average is in the block: the program ends its epoch, evaluates, and logs what it
 * measured (metrics.h). */
static int evaluate(struct engine *base, struct work *w, struct dev_result *sum, struct err *e)
{
    struct program_engine *g = of(base);
    int rc;
    if ((rc = settle_all(g, e)) < 0) {
        return rc;
    }
    g->p->phase = PHASE_EVALUATE;                              /* as the trainer has told */
    while (g->doing == HELD && g->held_at == WIRE_EPOCH_END) { /* again if it ends meanwhile */
        if (((rc = talk_go_on(g, WIRE_HOLD, e)) < 0 && (rc = settle_survive(g, rc, e)) < 0) ||
            (rc = settle_step(g, e)) < 0) {
            return rc;
        }
    }
    if (g->early && g->doing == HELD && g->held_at == WIRE_BEGIN) {
        err_set(e, ERR_UNSUPPORTED,
                "%s trains on after a loop over steps that ended within an epoch: where parameters "
                "are averaged, the run ends there",
                g->p->link.who);
        err_hint(e, "make each loop but the last a multiple of len(loader), or take strategy sync");
        return -ERR_UNSUPPORTED;
    }
    sum->leaves = g->doing == HELD && g->held_at == WIRE_LEAVE;
    sum->absent = g->lost || g->answered < 0; /* it has just come back */
    sum->anew = g->p->incarnation > 0;
    w->eval_count = metrics_take_newest(&g->metrics, sum);
    return 0;
}

/* ---- start and end --------------------------------------------------------------------------- */

static int settle(void *ctx, struct err *e)
{
    struct program_engine *g = ctx;
    int rc = settle_step(g, e);
    return rc < 0 || ended_is_known(g)
               ? rc
               : err_set(e, ERR_PEER, "%s ended in step %lld, and its parameters with it",
                         g->p->link.who, (long long)g->number);
}

static void make_step(void *ctx, double scale)
{
    struct program_engine *g = ctx;
    (void)scale;
    g->go = g->stays_void ? g->go : 0;
}

static int prepare(struct engine *base, const struct run_state *from, struct err *e)
{
    struct program_engine *g = of(base);
    struct dev_replica *r = &g->replica;
    memcpy(r->host[DEV_PARAMS], from->params, r->count[DEV_PARAMS] * sizeof(float));
    if (r->count[DEV_STATS] > 0) {
        memcpy(r->host[DEV_STATS], from->stats, r->count[DEV_STATS] * sizeof(float));
    }
    base->replica = r;
    base->buckets = g->p->block.buckets;
    base->n_buckets = g->p->block.n_buckets;
    g->doing = WORKS;
    g->lost = g->p->awaits; /* until it enters */
    return talk_say(g, WIRE_START, g->p->resumed ? WIRE_RESUMED : 0, e);
}

static bool ready(struct engine *base, int batch)
{
    (void)base;
    (void)batch;
    return true; /* a program takes any size */
}

/* Lets the program finish: the end of its last epoch, what it does after its loop, and LEAVE. A job
 * that is stopped, or has reached its target, takes back the slices that were sent in advance. */
static int end_run(struct program_engine *g, enum action why, struct err *e)
{
    struct wire_message m;
    int rc;
    uint32_t stop = why == DO_END && g->sent <= g->number + 1 ? 0 : WIRE_STOP;
    if (!(*slice_told(g, g->sent - 1) & WIRE_RUN_LAST) && g->doing != GONE &&
        (rc = ahead_send_end(g, WIRE_EPOCH_LAST | WIRE_RUN_LAST | stop, 0, e)) < 0) {
        return rc;
    }
    if ((rc = talk_go_on(g, stop, e)) < 0) {
        return rc;
    }
    program_phase(g->p, PHASE_EVALUATE);
    while (g->doing != GONE) {
        if ((rc = talk_hear(g, &m, e)) < 0) {
            return child_ended(&g->p->child) && g->p->child.status == 0 ? 0 : rc;
        }
        if (m.type == WIRE_LEAVE) {
            g->doing = GONE;
        } else if (m.type == WIRE_BEGIN && (m.flags & WIRE_AGAIN)) {
            if ((rc = further_sum(g, stop, e)) < 0) {
                return rc;
            }
        } else if (m.type == WIRE_EPOCH_END || m.type == WIRE_BEGIN) {
            if (m.type == WIRE_EPOCH_END && (rc = talk_say(g, WIRE_CONTINUE, stop, e)) < 0) {
                return rc;
            }
        } else if (!stop) {
            return talk_unexpected(g, &m, e);
        }
    }
    return link_await_end(&g->p->link, e);
}

/* Waits until the program has evaluated the model with which the run ends. If it ends meanwhile,
 * its next process does. */
static int evaluate_last(struct program_engine *g, struct err *e)
{
    int rc = state_stand(g, e);
    while (rc >= 0 && g->lost && (rc = again_end(g, e)) >= 0) {
        g->holding = true; /* at its epoch's end, always */
        rc = state_stand(g, e);
    }
    return rc;
}

/* Under a server: gives one evaluation that the program has made of the weights that it was given,
 * the oldest first. */
static int measured(struct engine *base, bool last, struct dev_result *sum, int64_t *n,
                    struct err *e)
{
    struct program_engine *g = of(base);
    int rc = last && base->test_samples == 0 && g->number >= 0 ? evaluate_last(g, e) : 0;
    *n = rc >= 0 && base->test_samples == 0 ? metrics_take_oldest(&g->metrics, sum) : 0;
    return rc;
}

static int logged(struct engine *base, const struct logged_value **out)
{
    return metrics_take_logged(&of(base)->metrics, out);
}

static int end(struct engine *base, enum action why, struct err *e)
{
    struct program_engine *g = of(base);
    int rc;
    g->ends = why == DO_END;
    do {
        if ((rc = again_end(g, e)) >= 0 && (rc = end_run(g, why, e)) >= 0) {
            return rc;
        }
    } while ((rc = ended_survive(g, rc, e)) >= 0);
    return rc;
}

static int own_state(struct engine *base, struct own_state *out, struct err *e)
{
    return state_take(of(base), out, e);
}

static int give(struct engine *base, struct own_state *out, struct err *e)
{
    return state_give(of(base), out, e);
}

static int resume(struct engine *base, struct work *w, const struct own_state *state,
                  struct dev_result *out, double *compute_s, struct err *e)
{
    return again_resume(of(base), w, state, out, compute_s, e);
}

static int take(struct engine *base, const struct own_state *state, struct err *e)
{
    return again_take(of(base), state, e);
}

static int enter(struct engine *base, const struct entrance *at, const struct own_state *state,
                 struct err *e)
{
    return return_enter(of(base), at, state, e);
}

static bool mark(struct engine *base, float *out)
{
    return marks_write(of(base), out);
}

static int differs(struct engine *base, size_t mark, double off, struct err *e)
{
    return marks_differ(of(base), mark, off, e);
}

static void parted(struct engine *base, struct err *e)
{
    const struct program *p = of(base)->p;
    char lines[300], said[sizeof(e->message)];
    memcpy(said, e->message, sizeof(said));
    child_last_lines(&of(base)->p->child, lines, sizeof(lines));
    snprintf(e->message, sizeof(e->message), "%s; it ran on '%.60s'%s%s", said, p->ask.node,
             lines[0] ? "; " : "", lines);
}

static void release(struct engine *base)
{
    program_leave(of(base)->p);
    free(of(base)->kept);
    free(of(base)->given);
    free(base);
}

static const struct engine_ops program_engine_ops = {
    .prepare = prepare,
    .ready = ready,
    .load = load,
    .compute = compute,
    .evaluate = evaluate,
    .measured = measured,
    .logged = logged,
    .own_state = own_state,
    .mark = mark,
    .differs = differs,
    .parted = parted,
    .give = give,
    .resume = resume,
    .take = take,
    .enter = enter,
    .end = end,
    .free = release,
};

struct engine *program_engine(struct program *p, struct trainer_env *env, struct err *e)
{
    struct program_engine *g = calloc(1, sizeof(*g));
    const struct jobspec *spec = env->spec;
    const struct strategy_ops *strategy = strategy_find(spec->strategy.type);
    enum step_maker step = strategy->program->step;
    if (!g) {
        err_set(e, ERR_MEMORY, "cannot start the trainer: memory ran out");
        return NULL;
    }
    g->p = p;
    g->number = -1;
    g->granted.last = -1;
    g->rate = spec->optimizer.learning_rate;
    g->differences = !p->about.plain && step == STEP_BY_STRATEGY;
    g->summed = step == STEP_BY_PROGRAM_ON_SUM;
    g->quits = p->epochs > 0;
    g->averages = !g->summed && !strategy->server && spec->workers > 1;
    g->of_sum = 1;
    g->base.program.weighed = true;
    g->base.program.sums = p->about.sums;
    g->base.program.open = p->open;
    program_device_init(&g->device, p);
    g->device.ctx = g;
    g->device.settle = settle;
    g->device.step = make_step;
    program_replica_init(&g->replica, &g->device, p, spec);
    g->base.ops = &program_engine_ops;
    g->base.env = env;
    g->base.program.ahead = p->ahead;
    g->base.program.wants_sure = g->summed && spec->workers == 1;
    g->base.test_samples = strategy->server ? 0 : METRICS_SAMPLES;
    metrics_init(&g->metrics);
    if (again_init(g, e) < 0 || marks_init(g, e) < 0) {
        free(g->kept);
        free(g);
        return NULL;
    }
    g->base.program.marks = g->summed ? g->n_marks : 0;
    return &g->base;
}

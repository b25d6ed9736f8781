/* One step of a program: its backward pass from BEGIN to GRADIENTS. Buckets are handed to the
 * strategy as they come; what the program says of the step is checked and measured. */
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "worker/program/engine_parts.h"

struct pass { /* one backward pass of the program */
    bool ready[256];
    double begin, cpu; /* of its computing, evaluations between epochs left out */
    dev_mark_fn *mark;
    void *ctx;
};

/* Buckets come in any order and are marked in theirs. */
static int take_bucket(struct program_engine *g, struct pass *pass, const struct wire_message *m,
                       struct err *e)
{
    int i = m->bucket.index;
    if (i < 0 || i >= g->base.n_buckets || pass->ready[i]) {
        return err_set(e, ERR_PEER, "%s reported bucket %d of %d, or reported it twice",
                       g->p->link.who, i, g->base.n_buckets);
    }
    pass->ready[i] = true;
    while (!g->differences && g->marked < g->base.n_buckets && pass->ready[g->marked]) {
        pass->mark(pass->ctx, g->marked++);
    }
    return 0;
}

/* A program that computes for ever is told from a slow one by the longest of its own steps; its
 * first ones may take any time, since a framework may compile then. */
static void begin_watch(struct program_engine *g)
{
    static const double times_longer = 10;
    struct link *l = &g->p->link;
    double most = times_longer * g->longest;
    g->began_pass = clock_now();
    l->until = g->here < 2 ? 0 : g->began_pass + (most > l->patience ? most : l->patience);
    l->task = "a step";
}

static void end_watch(struct program_engine *g)
{
    double took = clock_now() - g->began_pass;
    g->p->link.until = 0;
    g->longest = took > g->longest && g->here > 0 ? took : g->longest;
    g->here++;
}

static int check_begin(struct program_engine *g, const struct wire_message *m, struct err *e)
{
    if (m->flags & WIRE_AGAIN) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s made a second backward pass before its optimizer's step, which this "
                       "version does not sum",
                       g->p->link.who);
    }
    if (m->slice.number != g->number) {
        return err_set(e, ERR_PEER, "%s began slice %lld where slice %lld was due", g->p->link.who,
                       (long long)m->slice.number, (long long)g->number);
    }
    g->begun = true;
    begin_watch(g);
    again_begun(g);
    return 0;
}

static int check_gradients(struct program_engine *g, const struct wire_message *m,
                           const struct work *w, struct err *e)
{
    if (!g->begun || m->gradients.number != g->number) {
        return err_set(e, ERR_PEER, "%s sent gradients of slice %lld, which it had not begun",
                       g->p->link.who, (long long)m->gradients.number);
    }
    if (m->flags & WIRE_VOID) {
        return err_set(e, ERR_PEER, "the backward pass of %s failed half way in step %lld",
                       g->p->link.who, (long long)g->number);
    }
    if (m->gradients.samples != w->slice.count) {
        return err_set(e, ERR_PEER,
                       "%s had %lld samples in step %lld where its slice has %lld: its loader does "
                       "not follow the indices that it was given",
                       g->p->link.who, (long long)m->gradients.samples, (long long)g->number,
                       (long long)w->slice.count);
    }
    if (w->slice.count > 0 && m->gradients.weight != (double)w->slice.count) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s gives step %lld a weight of %g; this version weighs a step by its "
                       "samples, %lld",
                       g->p->link.who, (long long)g->number, m->gradients.weight,
                       (long long)w->slice.count);
    }
    return 0;
}

/* The program's own step is made, and its difference takes the gradients' place. */
static int take_difference(struct program_engine *g, struct err *e)
{
    struct wire_message m;
    int rc;
    if ((rc = talk_say(g, WIRE_GO, WIRE_DIFFERENCE, e)) < 0 || (rc = talk_hear(g, &m, e)) < 0) {
        return rc;
    }
    return m.type == WIRE_GRADIENTS && (m.flags & WIRE_DIFFERENCE) ? 0 : talk_unexpected(g, &m, e);
}

static void take_result(struct program_engine *g, const struct wire_message *m, struct work *w,
                        struct dev_result *out)
{
    double n = (double)w->slice.count, loss = m->gradients.loss, correct = m->gradients.correct;
    if (isfinite(m->gradients.learning_rate)) {
        g->rate = m->gradients.learning_rate;
    }
    w->learning_rate = g->differences ? 1 : g->rate;
    out->loss = isnan(loss) ? 0 : loss * n;
    out->correct = correct >= 0 ? (int64_t)correct : -1;
    out->finite = !(m->flags & WIRE_NOT_FINITE);
}

/* An epoch's end that comes while a step is due belongs to the step before. */
static int check_previous_end(struct program_engine *g, struct err *e)
{
    bool last = g->number > 0 && (*ahead_told(g, g->number - 1) & WIRE_EPOCH_LAST);
    return last && !g->begun ? 0 : talk_ended_early(g, e);
}

/* Until GRADIENTS. EPOCH_END may come first: the program evaluates then, which is no computing. */
static int follow(struct program_engine *g, struct pass *pass, struct wire_message *m,
                  struct err *e)
{
    const struct trainer_env *env = g->base.env;
    int rc;
    for (;;) {
        if ((rc = talk_hear(g, m, e)) < 0) {
            return rc;
        }
        switch (m->type) {
        case WIRE_EPOCH_END:
            g->base.idle = -1; /* until BEGIN */
            program_phase(g->p, PHASE_EVALUATE);
            if ((rc = check_previous_end(g, e)) >= 0) {
                rc = talk_say(g, WIRE_CONTINUE, 0, e);
            }
            break;
        case WIRE_BEGIN:
            rc = check_begin(g, m, e);
            if (g->base.idle < 0) {
                g->base.idle = comm_now(env->comm) - pass->begin;
                program_phase(g->p, PHASE_COMPUTE);
                pass->cpu = child_cpu(&g->p->child);
                env->step_begin(env->step_ctx);
            }
            break;
        case WIRE_BUCKET:
            rc = take_bucket(g, pass, m, e);
            break;
        case WIRE_GRADIENTS:
            return 0;
        case WIRE_LEAVE:
            return talk_check_leave(g, e) < 0 ? -ERR_PEER : talk_unexpected(g, m, e);
        default:
            return talk_unexpected(g, m, e);
        }
        if (rc < 0) {
            return rc;
        }
    }
}

/* The reference time of an emulated slowdown: CPU seconds a sample of the program's process, which
 * other processes on this host do not lengthen. */
static void measure(struct program_engine *g, const struct pass *pass, int64_t samples)
{
    const struct trainer_env *env = g->base.env;
    double cpu = child_cpu(&g->p->child) - pass->cpu;
    if (samples == 0 || pass->cpu < 0 || cpu <= 0) {
        return;
    }
    double each = cpu / (double)samples / (g->p->threads > 0 ? g->p->threads : 1);
    struct profile p;
    g->measured++;
    g->each = g->measured <= 2 || each < g->each ? each : g->each + 0.1 * (each - g->each);
    if (g->measured < 2) {
        return; /* the first step warms up */
    }
    profile_init(&p);
    p.k = g->each;
    p.count = 1;
    if (env->calibrated) {
        env->calibrated(env->step_ctx, &p);
    }
    if (g->measured == 3) {
        env->telemetry->profile(env->telemetry->ctx, &p);
    }
}

int pass_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                 dev_mark_fn *mark, void *ctx, struct err *e)
{
    struct engine *base = &g->base;
    struct dev_replica *r = &g->replica;
    struct pass pass = {.begin = comm_now(base->env->comm),
                        .cpu = child_cpu(&g->p->child),
                        .mark = mark,
                        .ctx = ctx};
    struct wire_message m;
    int rc;
    g->begun = g->doing == HELD && g->held_at == WIRE_BEGIN;
    g->p->phase = PHASE_COMPUTE; /* as the trainer has told */
    if (g->begun) {
        begin_watch(g);
        again_begun(g);
    }
    if ((rc = talk_go_on(g, 0, e)) < 0 || (rc = follow(g, &pass, &m, e)) < 0 ||
        (rc = check_gradients(g, &m, w, e)) < 0) {
        return rc;
    }
    end_watch(g);
    take_result(g, &m, w, out);
    if (w->slice.count == 0 || (m.flags & WIRE_HELD_BACK)) {
        memset(r->host[DEV_GRADS], 0, r->count[DEV_GRADS] * sizeof(float));
    } else if (g->differences && (rc = take_difference(g, e)) < 0) {
        return rc;
    }
    while (g->marked < base->n_buckets) {
        mark(ctx, g->marked++);
    }
    g->doing = AWAITS_GO;
    g->answered = g->number;
    g->good++;
    g->go = WIRE_SKIP_STEP; /* unless the strategy updates */
    measure(g, &pass, w->slice.count);
    comm_pace(base->env->comm, 1.0, (int)w->slice.count);
    return 0;
}

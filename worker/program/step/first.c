/* One step of a program: its first backward pass, from BEGIN to GRADIENTS. Buckets are handed to
 * the strategy as they come; what the program says of the step is checked and measured. */
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "worker/program/step/pass.h"

/* ---- messages of a pass ---------------------------------------------------------------------- */

/* A program that computes for ever is told from a slow one by the longest of its own steps, and
 * gets `patience` times its patience at least. Its first ones may take any time, since a framework
 * may compile then. */
static void watch(struct program_engine *g, double patience)
{
    static const double times_longer = 10;
    struct link *l = &g->p->link;
    double most = times_longer * g->longest, least = patience * l->patience;
    l->until = g->here < 2 ? 0 : clock_now() + (most > least ? most : least);
    l->task = "a step";
}

/* A rank that copies the parameters does so in the middle of the pass. */
static bool looks_early(const struct program_engine *g)
{
    return g->source == FROM_KEPT && !g->p->block.copy && g->here > 0;
}

/* Before BEGIN the program may do what it likes between two steps, and BEGIN may come late. */
static void begin_watch(struct program_engine *g)
{
    struct link *l = &g->p->link;
    g->began_pass = clock_now();
    watch(g, g->begun ? 1 : 10);
    if (g->p->block.copy) {
        granted_tell(g);
    }
    l->early = looks_early(g) ? g->began_pass + g->usual / 2 : 0;
    l->glance = kept_glance;
    l->glance_ctx = g;
}

/* A pass is timed from where the rank begins to wait. Where the rank comes late, what is left is no
 * short pass: one of which the program made the step itself shortens nothing, others halve it. */
double first_usual(double usual, double took, bool made)
{
    if (took >= usual) {
        return usual + 0.1 * (took - usual);
    }
    return made ? usual : fmax(took, usual / 2);
}

static void end_watch(struct program_engine *g, bool made)
{
    double took = clock_now() - g->began_pass;
    g->p->link.until = g->p->link.early = 0;
    g->usual = g->here < 2 ? took : first_usual(g->usual, took, made);
    g->longest = took > g->longest && g->here > 0 ? took : g->longest;
    g->here++;
}

static int check_begin(struct program_engine *g, int64_t number, struct err *e)
{
    if (number != g->number) {
        return err_set(e, ERR_PEER, "%s began slice %lld where slice %lld was due", g->p->link.who,
                       (long long)number, (long long)g->number);
    }
    g->begun = true;
    g->p->link.early = 0;
    watch(g, 1);
    kept_begun(g);
    return 0;
}

static int check_gradients(struct program_engine *g, struct pass *pass,
                           const struct wire_message *m, const struct work *w, struct err *e)
{
    if (!g->begun || m->gradients.number != g->number) {
        return err_set(e, ERR_PEER, "%s sent gradients of slice %lld, which it had not begun",
                       g->p->link.who, (long long)m->gradients.number);
    }
    if ((m->flags & WIRE_MADE) && atomic_load(&g->p->block.shared->granted) < g->number) {
        return talk_unexpected(g, m, e);
    }
    if (m->gradients.samples != w->slice.count) {
        return err_set(e, ERR_PEER,
                       "%s had %lld samples in step %lld where its slice has %lld: its loader does "
                       "not follow the indices that it was given",
                       g->p->link.who, (long long)m->gradients.samples, (long long)g->number,
                       (long long)w->slice.count);
    }
    return pass_take_weight(g, pass, m->gradients.weight, e);
}

/* ---- differences, results -------------------------------------------------------------------- */

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
    g->base.loading = m->gradients.loading > 0 ? m->gradients.loading : 0;
    out->loss = n > 0 ? loss * n : 0; /* NaN: not told */
    out->correct = correct >= 0 ? (int64_t)correct : -1;
    out->finite = !(m->flags & WIRE_NOT_FINITE);
    out->anew = g->p->incarnation > 0;
    out->measured = g->metrics.n > 0;
}

static int check_finite(const struct program_engine *g, const struct work *w,
                        const struct dev_result *r, struct err *e)
{
    if (r->finite) {
        return 0;
    }
    err_set(e, ERR_NOT_FINITE,
            "the loss became NaN or infinite: %s, step %lld, epoch %lld, %lld samples",
            g->p->link.who, (long long)g->number, (long long)w->slice.epoch,
            (long long)w->slice.count);
    err_hint(e, "a smaller learning rate, or gradient clipping");
    return -ERR_NOT_FINITE;
}

/* An epoch's end that comes while a step is due belongs to the step before; that of a loop over
 * steps may be anywhere. */
static int check_previous_end(struct program_engine *g, bool anywhere, struct err *e)
{
    bool last = anywhere || (g->number > 0 && (*slice_told(g, g->number - 1) & WIRE_EPOCH_LAST));
    return last && !g->begun ? 0 : talk_ended_early(g, e);
}

enum answer { GAVE_GRADIENTS, HAS_LEFT };

/* LEAVE in place of the step that is due: HAS_LEFT if the program may. */
static int take_leave(struct program_engine *g, struct err *e)
{
    int rc;
    if (!(g->p->open || g->quits) || g->begun) {
        struct wire_message m = program_message(WIRE_LEAVE, 0);
        return (rc = talk_check_leave(g, g->number, e)) < 0 ? rc : talk_unexpected(g, &m, e);
    }
    if ((rc = talk_check_leave(g, g->number - 1, e)) < 0 ||
        (g->early && !g->holding && (rc = talk_check_status(g, e)) < 0)) {
        return rc;
    }
    g->doing = g->holding ? HELD : GONE;
    g->held_at = WIRE_LEAVE;
    return HAS_LEFT;
}

/* The steps before, of the program as it was, are measured no further. */
static void measure_begin(struct program_engine *g)
{
    g->cpu.from = child_cpu(&g->p->child);
    g->cpu.samples = 0;
    g->cpu.steps = 0;
}

/* The program begins the slice; after an evaluation its computing time begins here. */
static int take_begin(struct program_engine *g, struct pass *pass, int64_t number, struct err *e)
{
    const struct trainer_env *env = g->base.env;
    int rc = check_begin(g, number, e);
    if (rc >= 0 && g->holding) {
        rc = talk_say(g, WIRE_CONTINUE, 0, e);
    }
    if (g->base.idle < 0) {
        g->base.idle = comm_now(env->comm) - pass->begin;
        program_phase(g->p, PHASE_COMPUTE);
        measure_begin(g);
        g->began_pass = clock_now();
        env->step_begin(env->step_ctx);
    }
    return rc;
}

/* EPOCH_END before BEGIN: the program evaluates now, which is no computing. A loop over steps that
 * ends within an epoch is HAS_LEFT where parameters are averaged first. */
static int take_end(struct program_engine *g, const struct wire_message *m, struct err *e)
{
    int rc = check_previous_end(g, m->slice.epoch < 0, e);
    if (rc >= 0 && m->slice.epoch < 0 && g->averages) {
        g->early = true;
        g->doing = HELD;
        g->held_at = WIRE_EPOCH_END;
        return HAS_LEFT;
    }
    g->base.idle = -1; /* until BEGIN */
    granted_break(g);
    g->p->link.until = 0;
    program_phase(g->p, PHASE_EVALUATE);
    return rc < 0 ? rc : talk_say(g, WIRE_CONTINUE, g->p->open ? WIRE_HOLD : 0, e);
}

/* Until GRADIENTS or LEAVE: enum answer. */
static int follow(struct program_engine *g, struct pass *pass, struct wire_message *m,
                  struct err *e)
{
    int rc;
    for (;;) {
        if ((rc = talk_hear(g, m, e)) < 0) {
            return rc;
        }
        switch (m->type) {
        case WIRE_EPOCH_END:
            if ((rc = take_end(g, m, e)) == HAS_LEFT) {
                return rc;
            }
            break;
        case WIRE_BEGIN:
            if (m->flags & WIRE_AGAIN) {
                rc = g->begun ? talk_unexpected(g, m, e) : further_sum(g, 0, e);
            } else {
                rc = take_begin(g, pass, m->slice.number, e);
            }
            break;
        case WIRE_BUCKET:
            rc = pass_take_bucket(g, pass, m, e);
            break;
        case WIRE_GRADIENTS:
            return m->flags & WIRE_WITH_BEGIN ? take_begin(g, pass, m->gradients.number, e) : 0;
        case WIRE_LEAVE:
            return take_leave(g, e);
        default:
            return talk_unexpected(g, m, e);
        }
        if (rc < 0) {
            return rc;
        }
    }
}

/* The program makes no step any more. Ranks that sum learn that from a step that nobody makes. */
static void leave(struct program_engine *g, struct pass *pass, struct work *w,
                  struct dev_result *out)
{
    g->p->link.until = g->p->link.early = 0;
    *out = (struct dev_result){
        .loss = NAN, .correct = -1, .finite = true, .leaves = true, .early = g->early};
    if (g->early && g->summed) {
        w->voided = true;
        w->weight = 0;
        while (g->marked < g->base.n_buckets) {
            pass_mark_next(g, pass, true);
        }
    }
}

/* CPU seconds of the program's process, which other processes on this host do not lengthen: what a
 * quota makes of them, and, for each sample, the reference time of an emulated slowdown. */
static void measure(struct program_engine *g, int64_t samples)
{
    const struct trainer_env *env = g->base.env;
    g->cpu.samples += samples;
    if (++g->cpu.steps < GRANTED_MOST && granted_now(g) > g->number) {
        return;
    }
    double cpu = child_cpu(&g->p->child) - g->cpu.from;
    samples = g->cpu.samples;
    g->cpu.steps = 0;
    if (samples == 0 || g->cpu.from < 0 || cpu <= 0) {
        return;
    }
    if (env->telemetry->program_cpu) {
        env->telemetry->program_cpu(env->telemetry->ctx, cpu);
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
        g->paced = p.k != g->each;
    }
    if (g->measured == MEASURED_FIRST) {
        env->telemetry->profile(env->telemetry->ctx, &p);
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The gradients as strategies take them: what the pass did not give is zero, a sum is that of a
 * whole step, and in place of gradients there may be a difference. */
static int settle_gradients(struct program_engine *g, struct pass *pass,
                            const struct wire_message *m, struct work *w, struct err *e)
{
    struct dev_replica *r = &g->replica;
    bool zero = w->weight <= 0 || (m->flags & (WIRE_HELD_BACK | WIRE_VOID));
    double whole = w->parts[0].whole > 0 ? (double)w->parts[0].whole
                                         : (double)g->base.env->spec->batching.global_batch;
    if (m->flags & WIRE_VOID) {
        w->voided = true;
        w->weight = 0;
    }
    if (!g->summed && zero) {
        memset(r->host[DEV_GRADS], 0, r->count[DEV_GRADS] * sizeof(float));
    } else if (!g->summed) {
        g->of_sum = g->base.program.sums ? whole / (double)w->slice.count : 1;
        pass_make_whole(g);
    }
    int rc = g->differences && !zero ? take_difference(g, e) : 0;
    while (rc >= 0 && g->marked < g->base.n_buckets) {
        pass_mark_next(g, pass, g->summed && zero);
    }
    return rc;
}

int first_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                  dev_mark_fn *mark, void *ctx, struct err *e)
{
    struct engine *base = &g->base;
    struct pass pass = {
        .weight = -1, .work = w, .begin = comm_now(base->env->comm), .mark = mark, .ctx = ctx};
    struct wire_message m;
    int rc;
    if (talk_has_quit(g)) {
        leave(g, &pass, w, out);
        return 0;
    }
    g->begun = g->doing == HELD && g->held_at == WIRE_BEGIN;
    granted_begin(g, w->sure);
    g->made = false;
    g->p->phase = PHASE_COMPUTE; /* as the trainer has told */
    begin_watch(g);
    if (g->begun) {
        kept_begun(g);
    }
    if ((rc = talk_go_on(g, 0, e)) < 0) {
        return rc;
    }
    if (g->cpu.steps == 0) {
        measure_begin(g); /* while the program goes on */
    }
    if ((rc = follow(g, &pass, &m, e)) < 0 ||
        (rc == GAVE_GRADIENTS && (rc = check_gradients(g, &pass, &m, w, e)) < 0)) {
        return rc;
    }
    if (rc == HAS_LEFT) {
        leave(g, &pass, w, out);
        return 0;
    }
    granted_made(g, &m, comm_now(base->env->comm) - pass.begin - base->idle);
    end_watch(g, m.flags & WIRE_MADE);
    marks_take(g);
    take_result(g, &m, w, out);
    if ((rc = check_finite(g, w, out, e)) < 0 || (rc = settle_gradients(g, &pass, &m, w, e)) < 0) {
        return rc;
    }
    g->made = m.flags & WIRE_MADE;
    g->doing = g->made ? WORKS : AWAITS_GO;
    g->own_step = g->made ? OWN_STEP : g->own_step;
    g->answered = g->number;
    g->p->stepped = true;
    g->good++;
    bool same = g->passes_before == 0 || g->passes_before == g->passes;
    g->passes_usual = same ? g->passes : 0;
    g->several = g->several || g->passes > 1;
    g->passes_before = g->passes;
    g->passes = 1;
    g->stays_void = false;
    g->go = pass_no_step(g, w->voided); /* unless the strategy updates */
    measure(g, w->slice.count);
    comm_pace(base->env->comm, 1.0, (int)w->slice.count);
    return 0;
}

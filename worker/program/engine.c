/* The engine of a user's program (worker/engine.h): the trainer's calls become messages to it.
 *
 *      trainer    load        compute               on_gradients, next         load, compute
 *      rank       SLICE ►     ► wait for buckets    sums, pushes, pulls        SLICE ► GO ►
 *      program        BEGIN ─ BUCKET … ─ GRADIENTS ─ waits ─────────────────── step ─ BEGIN
 *
 * GO is sent late: when the next step begins, so that what `next` pulled is in the block by then;
 * or when a strategy reads parameters (averages, states), which only then must be settled. In the
 * second case GO comes with WIRE_HOLD, and the program stops at its next BEGIN, EPOCH_END or LEAVE
 * until it is told to continue.
 *
 * The parameters are the program's between GO and what it says next, and ours at all other times.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/program/metrics.h"
#include "worker/program/program.h"

/* What the program does, as far as the rank knows. */
enum doing {
    WORKS,     /* between START, GO or CONTINUE and what it says next */
    AWAITS_GO, /* it has sent GRADIENTS */
    HELD,      /* it has sent BEGIN, EPOCH_END or LEAVE and waits for CONTINUE */
    GONE       /* it has left */
};

struct program_engine {
    struct engine base;
    struct program *p; /* borrowed */
    struct program_device device;
    struct dev_replica replica;
    enum doing doing;
    uint32_t held_at;              /* HELD: the type of what it said */
    bool holding;                  /* WORKS: it was told to wait at what it says next */
    uint32_t go;                   /* flags of the GO that is due */
    bool differences;              /* the strategy gets them in place of gradients */
    int64_t number, sent;          /* of the step under way; slices that were sent */
    uint32_t told[AHEAD_MOST + 2]; /* by number modulo p->slots: EPOCH_LAST and RUN_LAST of slices
                                      that were sent */
    bool begun;                    /* BEGIN came for the step under way */
    double rate;                   /* that the program told last */
    struct metrics metrics;
    int64_t measured; /* steps whose CPU time is in `each` */
    double each;      /* CPU seconds a sample */
};

static struct program_engine *of(struct engine *base)
{
    return (struct program_engine *)base;
}

static uint32_t *told_of(struct program_engine *g, int64_t number)
{
    return &g->told[number < 0 ? 0 : number % g->p->slots];
}

/* ---- messages -------------------------------------------------------------------------------- */

static int unexpected(const struct program_engine *g, const struct wire_message *m, struct err *e)
{
    return err_set(e, ERR_PEER, "%s sent message %u of the protocol out of turn", g->p->link.who,
                   m->type);
}

/* The next message that is not done aside. */
static int hear(struct program_engine *g, struct wire_message *m, struct err *e)
{
    int fd, rc;
    do {
        if ((rc = link_receive(&g->p->link, m, &fd, e)) < 0) {
            return rc;
        }
        if (m->type == WIRE_LOG) {
            metrics_take(&g->metrics, fd);
            rc = 1;
        } else {
            rc = program_aside(g->p, m, fd, e);
        }
    } while (rc == 1);
    return rc;
}

static int say(struct program_engine *g, uint32_t type, uint32_t flags, struct err *e)
{
    struct wire_message m = program_message(type, flags);
    if (type == WIRE_GO || type == WIRE_CONTINUE) {
        g->doing = WORKS;
        g->holding = (flags & WIRE_HOLD) != 0;
    }
    return link_send(&g->p->link, &m, NULL, e);
}

/* A program may end an epoch only where the last slice of one was; a loop that is left early would
 * leave samples out. */
static int ended_early(const struct program_engine *g, struct err *e)
{
    return err_set(e, ERR_PEER,
                   "%s ended its epoch early, in step %lld: each epoch has all of its samples",
                   g->p->link.who, (long long)g->number);
}

static int check_epoch_end(struct program_engine *g, struct err *e)
{
    return *told_of(g, g->number) & WIRE_EPOCH_LAST ? 0 : ended_early(g, e);
}

static int check_leave(struct program_engine *g, struct err *e)
{
    if (*told_of(g, g->number) & WIRE_RUN_LAST) {
        return 0;
    }
    err_set(e, ERR_PEER, "%s left after %lld steps, before the job's %g epochs were over",
            g->p->link.who, (long long)g->number, g->base.env->spec->epochs);
    err_hint(e, "its loop over epochs and the job's 'epochs' must agree: evenstep.epochs(n)");
    return -ERR_PEER;
}

/* What a program says when it has settled: BEGIN of the next step, an epoch's end, or that it
 * leaves. */
static int settled_by(struct program_engine *g, const struct wire_message *m, struct err *e)
{
    switch (m->type) {
    case WIRE_BEGIN:
        g->begun = true;
        return 0;
    case WIRE_EPOCH_END:
        return check_epoch_end(g, e);
    case WIRE_LEAVE:
        return check_leave(g, e);
    default:
        return unexpected(g, m, e);
    }
}

/* The program stands still with its step made. */
static int settle(void *ctx, struct err *e)
{
    struct program_engine *g = ctx;
    struct wire_message m;
    int rc;
    if (g->doing == AWAITS_GO && (rc = say(g, WIRE_GO, g->go | WIRE_HOLD, e)) < 0) {
        return rc;
    }
    if (g->doing != WORKS || !g->holding) {
        return 0; /* it is held, has left, or has not begun its first step */
    }
    if ((rc = hear(g, &m, e)) < 0 || (rc = settled_by(g, &m, e)) < 0) {
        return rc;
    }
    g->doing = HELD;
    g->held_at = m.type;
    g->p->phase = PHASE_EXCHANGE;
    return 0;
}

static void make_step(void *ctx, double scale)
{
    (void)scale;
    ((struct program_engine *)ctx)->go = 0;
}

/* Lets it go on from where it stands; `flags` of GO or CONTINUE. */
static int go_on(struct program_engine *g, uint32_t flags, struct err *e)
{
    if (g->doing == AWAITS_GO) {
        return say(g, WIRE_GO, g->go | flags, e);
    }
    if (g->doing == HELD && g->held_at == WIRE_LEAVE) {
        int rc = say(g, WIRE_CONTINUE, flags, e);
        g->doing = GONE;
        return rc;
    }
    return g->doing == HELD ? say(g, WIRE_CONTINUE, flags, e) : 0;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static int send_slice(struct program_engine *g, const struct part *part, uint32_t flags,
                      struct err *e)
{
    const struct jobspec *spec = g->base.env->spec;
    struct wire_message m = program_message(WIRE_SLICE, flags);
    int64_t slot = g->sent % g->p->slots,
            *indices = g->p->block.indices + slot * g->p->block.global_batch;
    BUG_ON(part->slice.count > g->p->block.global_batch);
    for (int64_t i = 0; i < part->slice.count; i++) {
        indices[i] = sample_index(spec->seed, part->slice.epoch, part->slice.start + i,
                                  g->p->about.samples, spec->data.shuffle);
    }
    m.slice.epoch = part->slice.epoch;
    m.slice.number = g->sent++;
    m.slice.start = part->slice.start;
    m.slice.count = part->slice.count;
    m.slice.step_count = part->whole;
    m.slice.slot = (int32_t)slot;
    *told_of(g, m.slice.number) = flags;
    return link_send(&g->p->link, &m, NULL, e);
}

/* An end that was not known when the slice before it was sent. */
static int send_end(struct program_engine *g, uint32_t flags, int64_t epoch, struct err *e)
{
    struct wire_message m = program_message(WIRE_SLICE, WIRE_NO_STEP | flags);
    m.slice.epoch = epoch;
    *told_of(g, g->sent - 1) |= flags;
    return link_send(&g->p->link, &m, NULL, e);
}

/* Sends what the strategy has fixed and the program does not have yet. */
static int load(struct engine *base, const struct work *w, struct err *e)
{
    struct program_engine *g = of(base);
    bool over = w->n_parts < 1 + base->ahead; /* nothing comes after these */
    int rc = 0;
    BUG_ON(w->n_parts < 1);
    g->number = g->number < 0 ? 0 : g->number + 1;
    for (int i = 0; i < w->n_parts && rc >= 0; i++) {
        const struct part *part = &w->parts[i], *next = i + 1 < w->n_parts ? part + 1 : NULL;
        bool last = part->last || (next && next->slice.epoch != part->slice.epoch),
             end = over && !next;
        uint32_t flags = (last ? WIRE_EPOCH_LAST : 0) | (end ? WIRE_EPOCH_LAST | WIRE_RUN_LAST : 0);
        int64_t number = g->number + i;
        if (number >= g->sent) {
            rc = send_slice(g, part, flags, e);
        } else if (number == g->sent - 1 && (flags & ~*told_of(g, number))) {
            rc = send_end(g, flags, part->slice.epoch, e);
        }
    }
    return rc;
}

/* ---- a step ---------------------------------------------------------------------------------- */

struct pass { /* one backward pass of the program */
    bool ready[256];
    int marked;
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
    while (!g->differences && pass->marked < g->base.n_buckets && pass->ready[pass->marked]) {
        pass->mark(pass->ctx, pass->marked++);
    }
    return 0;
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
    if ((rc = say(g, WIRE_GO, WIRE_DIFFERENCE, e)) < 0 || (rc = hear(g, &m, e)) < 0) {
        return rc;
    }
    return m.type == WIRE_GRADIENTS && (m.flags & WIRE_DIFFERENCE) ? 0 : unexpected(g, &m, e);
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
    bool last = g->number > 0 && (*told_of(g, g->number - 1) & WIRE_EPOCH_LAST);
    return last && !g->begun ? 0 : ended_early(g, e);
}

/* Until GRADIENTS. EPOCH_END may come first: the program evaluates then, which is no computing. */
static int follow(struct program_engine *g, struct pass *pass, struct wire_message *m,
                  struct err *e)
{
    const struct trainer_env *env = g->base.env;
    int rc;
    for (;;) {
        if ((rc = hear(g, m, e)) < 0) {
            return rc;
        }
        switch (m->type) {
        case WIRE_EPOCH_END:
            g->base.idle = -1; /* until BEGIN */
            program_phase(g->p, PHASE_EVALUATE);
            if ((rc = check_previous_end(g, e)) >= 0) {
                rc = say(g, WIRE_CONTINUE, 0, e);
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
            return check_leave(g, e) < 0 ? -ERR_PEER : unexpected(g, m, e);
        default:
            return unexpected(g, m, e);
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

static int compute(struct engine *base, struct work *w, struct dev_result *out, dev_mark_fn *mark,
                   void *ctx, struct err *e)
{
    struct program_engine *g = of(base);
    struct dev_replica *r = &g->replica;
    struct pass pass = {.begin = comm_now(base->env->comm),
                        .cpu = child_cpu(&g->p->child),
                        .mark = mark,
                        .ctx = ctx};
    struct wire_message m;
    int rc;
    g->begun = g->doing == HELD && g->held_at == WIRE_BEGIN;
    g->p->phase = PHASE_COMPUTE; /* as the trainer has told */
    if ((rc = go_on(g, 0, e)) < 0 || (rc = follow(g, &pass, &m, e)) < 0 ||
        (rc = check_gradients(g, &m, w, e)) < 0) {
        return rc;
    }
    take_result(g, &m, w, out);
    if (w->slice.count == 0 || (m.flags & WIRE_HELD_BACK)) {
        memset(r->host[DEV_GRADS], 0, r->count[DEV_GRADS] * sizeof(float));
    } else if (g->differences && (rc = take_difference(g, e)) < 0) {
        return rc;
    }
    while (pass.marked < base->n_buckets) {
        mark(ctx, pass.marked++);
    }
    g->doing = AWAITS_GO;
    g->go = WIRE_SKIP_STEP; /* unless the strategy updates */
    g->metrics.time = comm_now(base->env->comm) - base->job_start;
    g->metrics.step = g->number + 1;
    g->metrics.epoch = (double)w->slice.epoch +
                       (double)(w->slice.start + w->slice.count) / (double)g->p->about.samples;
    measure(g, &pass, w->slice.count);
    comm_pace(base->env->comm, 1.0, (int)w->slice.count);
    return 0;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* The strategy's average is in the block: the program ends its epoch, evaluates, and logs what it
 * measured (metrics.h). */
static int evaluate(struct engine *base, struct work *w, struct dev_result *sum, struct err *e)
{
    struct program_engine *g = of(base);
    int rc;
    if ((rc = settle(g, e)) < 0) {
        return rc;
    }
    g->p->phase = PHASE_EVALUATE; /* as the trainer has told */
    if (g->doing == HELD && g->held_at == WIRE_EPOCH_END &&
        ((rc = go_on(g, WIRE_HOLD, e)) < 0 || (rc = settle(g, e)) < 0)) {
        return rc;
    }
    w->eval_count = metrics_take_result(&g->metrics, sum);
    return 0;
}

/* ---- start and end --------------------------------------------------------------------------- */

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
    return say(g, WIRE_START, g->p->resumed ? WIRE_RESUMED : 0, e);
}

static bool ready(struct engine *base, int batch)
{
    (void)base;
    (void)batch;
    return true; /* a program takes any size */
}

/* Lets the program finish: its last epoch's end, what it does after its loop, its leave. A job that
 * is stopped, or has reached its target, takes back the slices that were sent in advance. */
static int end(struct engine *base, enum action why, struct err *e)
{
    struct program_engine *g = of(base);
    struct wire_message m;
    int rc;
    uint32_t stop = why == DO_END && g->sent <= g->number + 1 ? 0 : WIRE_STOP;
    if (!(*told_of(g, g->sent - 1) & WIRE_RUN_LAST) && g->doing != GONE &&
        (rc = send_end(g, WIRE_EPOCH_LAST | WIRE_RUN_LAST | stop, 0, e)) < 0) {
        return rc;
    }
    if ((rc = go_on(g, stop, e)) < 0) {
        return rc;
    }
    program_phase(g->p, PHASE_EVALUATE);
    while (g->doing != GONE) {
        if ((rc = hear(g, &m, e)) < 0) {
            return child_ended(&g->p->child) && g->p->child.status == 0 ? 0 : rc;
        }
        if (m.type == WIRE_LEAVE) {
            g->doing = GONE;
        } else if (m.type == WIRE_EPOCH_END || m.type == WIRE_BEGIN) {
            if (m.type == WIRE_EPOCH_END && (rc = say(g, WIRE_CONTINUE, stop, e)) < 0) {
                return rc;
            }
        } else if (!stop) {
            return unexpected(g, &m, e);
        }
    }
    return link_await_end(&g->p->link, e);
}

static void release(struct engine *base)
{
    program_leave(of(base)->p);
    free(base);
}

static const struct engine_ops program_engine_ops = {
    .prepare = prepare,
    .ready = ready,
    .load = load,
    .compute = compute,
    .evaluate = evaluate,
    .end = end,
    .free = release,
};

struct engine *program_engine(struct program *p, struct trainer_env *env, struct err *e)
{
    struct program_engine *g = calloc(1, sizeof(*g));
    const struct jobspec *spec = env->spec;
    bool server = jobspec_uses_server(spec);
    if (!g) {
        err_set(e, ERR_MEMORY, "cannot start the trainer: memory ran out");
        return NULL;
    }
    g->p = p;
    g->number = -1;
    g->rate = spec->optimizer.learning_rate;
    g->differences = !p->about.plain && (server || spec->strategy.type == CAT_STRATEGY_HPSGD);
    program_device_init(&g->device, p);
    g->device.ctx = g;
    g->device.settle = settle;
    g->device.step = make_step;
    program_replica_init(&g->replica, &g->device, p, spec);
    g->base.ops = &program_engine_ops;
    g->base.env = env;
    g->base.ahead = p->ahead;
    g->base.test_samples = server ? 0 : METRICS_SAMPLES;
    metrics_init(&g->metrics, env, server);
    return &g->base;
}

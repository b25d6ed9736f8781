/* Strategy `hpsgd` (Zhou, Ye, Zhang, Lv 2020): the reduction of one round's gradients runs while
 * the next round trains on a replica.
 *
 *      round          0            1                2
 *      compute    ▇ G⁰ from w⁰ │ ▇ G¹ from w¹=w⁰ │ ▇▇▇ G² from w²
 *      reduction               │ ──── G⁰ ─────►  │ ──── G¹ ────►
 *
 *      compute: K_r local steps x ← x − eta·g on the replica
 *      w² = w¹ − eta·Σ(n_j/n)·G⁰_j        w³ = w² − eta·Σ(n_j/n)·G¹_j
 *
 * So a gradient is always one round old, and an exchange that takes no longer than K_r steps is
 * hidden. With `k: auto` the reduction that starts with round r carries each rank's times of the
 * last finished reduction and of a step, from which K of round r+1 follows, the same on all ranks
 * (round_length.h); rounds 0, 1 and 2 have one step (SEMANTICS.md 6). The step is the slowest one.
 * The reduction is the shortest one: the rank that joined last waited for nobody, while a rank
 * that is ahead also counts its wait, which grows with K and would make K grow without end.
 * An automatic round is no longer than an epoch. Minibatches change at a round's end only, where
 * evaluations and checkpoints happen too: there every rank has the same w. The last round is
 * reduced as well.
 *
 * A user's program may say what its gradients weigh: each goes into G by weight / n, and the summed
 * G is corrected by the samples and the weights of the whole round (weights.c).
 *
 * The learning rate goes into G with each gradient, because rounds may straddle a change of the
 * rate. A checkpoint holds the sum that is under way, as its optimizer state, so that a restart
 * goes on to the same numbers. Running statistics travel with each reduction and come back a round
 * late: what a rank's own have moved since is put on top of what was merged. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "kernels/flat.h"
#include "worker/exchange/lockstep/lockstep.h"
#include "worker/exchange/lockstep/round_length.h"
#include "worker/exchange/lockstep/weights.h"
#include "worker/exchange/norm_stats.h"

struct hpsgd {
    struct strategy base;
    struct lockstep l;
    size_t n, n_stats;
    float *w;        /* [n] at this round's start, the same on all ranks */
    float *g;        /* [n] this rank's part of the round's G, rate and share included */
    float *flying;   /* [n + n_stats + words + W] the sum under way: G, statistics, words, times of
                        reductions */
    float *launched; /* [n_stats] this rank's statistics when they were launched */
    struct allreduce sum;
    struct weighing weighing; /* of the sum: whose programs have left */
    bool leaves;              /* this rank's has */
    bool in_flight;           /* launched and not merged */
    bool landed;              /* it needs no waiting */
    bool restored;            /* it is a checkpoint's and brings no statistics */
    bool gathered;            /* g holds a round's gradients that were not launched */
    int64_t round;            /* since the start of this attempt */
    int given_k;              /* 0: auto */
    int k, done;              /* local steps of this round; done of them */
    struct round_length length;
    int64_t first_step; /* of this attempt */
    double step_seconds, reduction_seconds;
    double weight, samples; /* of this rank's gradients in the round; planned, of all ranks */
    double flying_samples;  /* `samples` of the sum under way */
};

static void release(struct strategy *base)
{
    struct hpsgd *s = (struct hpsgd *)base;
    allreduce_release(&s->sum);
    lockstep_release(&s->l);
    free(s->w);
    free(s->g);
    free(s->flying);
    free(s->launched);
    free(s);
}

static int64_t steps_of_epoch(const struct rank_env *env)
{
    int64_t batch = env->spec->batching.global_batch;
    return batch > 0 ? (env->train_samples + batch - 1) / batch : 0;
}

static int init(struct hpsgd *s, struct rank_env *env, const struct run_state *state, struct err *e)
{
    size_t n = env->replica->count[DEV_PARAMS];
    s->n = n;
    s->n_stats = env->n_stats;
    lockstep_init(&s->l, env, state);
    s->weighing.l = env->weighed ? &s->l : NULL;
    size_t all = n + s->n_stats + lockstep_words(&s->l) + (size_t)env->comm->workers;
    s->w = malloc(n * sizeof(float) + 1);
    s->g = calloc(n + 1, sizeof(float));
    s->flying = calloc(all, sizeof(float));
    s->launched = calloc(s->n_stats + 1, sizeof(float));
    if (!s->w || !s->g || !s->flying || !s->launched) {
        return err_set(e, ERR_MEMORY, "cannot hold a round of %zu parameters: memory ran out", n);
    }
    allreduce_init(&s->sum, env->comm, COMM_ALL, all);
    memcpy(s->w, env->replica->host[DEV_PARAMS], n * sizeof(float));
    s->given_k = (int)strategy_param(&env->spec->strategy, "k");
    s->k = s->given_k > 0 ? s->given_k : 1;
    s->length.most = steps_of_epoch(env);
    s->first_step = s->l.at.step;
    if (state->n_optim == n && state->optim) { /* under way when the checkpoint was written */
        memcpy(s->flying, state->optim, n * sizeof(float));
        s->in_flight = s->landed = s->restored = true;
    }
    return 0;
}

static struct strategy *start(struct rank_env *env, const struct run_state *state, struct err *e)
{
    struct hpsgd *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        return NULL;
    }
    s->base.ops = &strategy_HPSGD;
    if (init(s, env, state, e) < 0) {
        release(&s->base);
        return NULL;
    }
    return &s->base;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static float *words_of(const struct hpsgd *s)
{
    return s->flying + s->n + s->n_stats;
}

/* Launches the sum of the last round's gradients; round 0 has none. */
static int launch(struct hpsgd *s, struct err *e)
{
    struct lockstep *l = &s->l;
    struct dev_replica *r = l->env->replica;
    int W = l->env->comm->workers;
    float *words = words_of(s), *reductions = words + lockstep_words(l);
    if (s->n_stats > 0) {
        int rc = r->dev->ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
        if (rc < 0) {
            return rc;
        }
        memcpy(s->launched, r->host[DEV_STATS], s->n_stats * sizeof(float));
        norm_stats_weigh(s->flying + s->n, s->launched, l->env->mean_of, s->n_stats,
                         (float)(l->at.step > 0 ? lockstep_share(l) : 1.0 / W));
    }
    memcpy(s->flying, s->g, s->n * sizeof(float));
    memset(s->g, 0, s->n * sizeof(float));
    lockstep_write(l, words, s->step_seconds, 0);
    lockstep_weigh(l, words, s->weight, false, false);
    s->weighing.step = l->at.step + 1;
    weighing_leave(&s->weighing, &(struct dev_result){.leaves = s->leaves}, words);
    s->flying_samples = s->samples;
    s->weight = s->samples = 0;
    memset(reductions, 0, (size_t)W * sizeof(float));
    reductions[l->env->comm->rank] = (float)s->reduction_seconds;
    s->in_flight = true;
    s->landed = s->gathered = s->restored = false;
    allreduce_start(&s->sum, s->flying, s->n + s->n_stats + lockstep_words(l) + (size_t)W,
                    lockstep_words(l) + (size_t)W);
    return 0;
}

static int land(struct hpsgd *s, struct err *e)
{
    int rc = s->landed ? 0 : comm_wait(s->l.env->comm, &s->sum.op, e);
    if (rc >= 0 && !s->landed) {
        double scale = lockstep_correct(&s->l, words_of(s), s->flying_samples);
        s->landed = true;
        s->reduction_seconds = s->sum.op.finished - s->sum.op.started;
        if (scale != 1) {
            flat_scale(s->flying, s->flying, (float)scale, s->n);
        }
        rc = weighing_left(&s->weighing, words_of(s), e);
        s->l.at.left = s->l.at.left || rc == WEIGHING_ALL_LEFT;
    }
    return rc;
}

static float largest(const float *x, int n)
{
    float max = 0;
    for (int i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

static float smallest(const float *x, int n)
{
    float min = x[0];
    for (int i = 1; i < n; i++) {
        min = x[i] < min ? x[i] : min;
    }
    return min;
}

static int next_k(struct hpsgd *s)
{
    const struct rank_env *env = s->l.env;
    int W = env->comm->workers;
    const float *words = words_of(s);
    double step = largest(words + WORDS + W, W),
           reduction = smallest(words + lockstep_words(&s->l), W);
    int k = round_length_next(&s->length, reduction, step);
    return s->given_k > 0 ? s->given_k : s->round < 3 ? 1 : k;
}

static int merge_stats(struct hpsgd *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    const int32_t *mean_of = s->l.env->mean_of;
    float *merged = s->flying + s->n, *own = r->host[DEV_STATS];
    int rc = r->dev->ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
    if (rc < 0) {
        return rc;
    }
    norm_stats_settle(merged, merged, mean_of, s->n_stats);
    for (size_t i = 0; i < s->n_stats; i++) {
        own[i] += merged[i] - s->launched[i];
        own[i] = mean_of[i] >= 0 && own[i] < 0 ? 0 : own[i];
    }
    return r->dev->ops->store(r, DEV_STATS, 0, s->n_stats, e);
}

/* Waits for the sum under way, updates w with it, and makes w the replica. Without a sum w stays:
 * round 0 ends where it began. */
static int merge(struct hpsgd *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    bool summed = s->in_flight;
    int rc;
    if (summed) {
        if ((rc = land(s, e)) < 0) {
            return rc;
        }
        flat_subtract(s->w, s->flying, s->n);
    }
    s->in_flight = false;
    memcpy(r->host[DEV_PARAMS], s->w, s->n * sizeof(float));
    if ((rc = r->dev->ops->store(r, DEV_PARAMS, 0, s->n, e)) < 0) {
        return rc;
    }
    return s->n_stats > 0 && summed && !s->restored ? merge_stats(s, e) : 0;
}

static int end_round(struct hpsgd *s, struct err *e)
{
    bool summed = s->in_flight;
    int rc = merge(s, e);
    if (rc < 0) {
        return rc;
    }
    s->round++;
    s->done = 0;
    s->gathered = true;
    if (summed) {
        lockstep_agree(&s->l, words_of(s));
        s->k = next_k(s);
    }
    return 0;
}

/* The last round is reduced too. */
static int drain(struct hpsgd *s, struct err *e)
{
    int rc = launch(s, e);
    s->l.at.evaluated_here = false;
    if (rc < 0) {
        return rc;
    }
    return merge(s, e);
}

/* The program would not make the step that is due: its rounds end, as at the run's end. */
static int leave(struct hpsgd *s, struct err *e)
{
    int rc = s->done > 0 ? end_round(s, e) : s->in_flight ? merge(s, e) : 0;
    s->leaves = true;
    return rc < 0 ? rc : drain(s, e);
}

/* ---- the strategy ---------------------------------------------------------------------------- */

/* A state holds the sum under way, so the sum is launched early if need be, and merged at its usual
 * time. */
static int prepare_state(struct hpsgd *s, struct err *e)
{
    struct rank_env *env = s->l.env;
    int rc = 0;
    env->aside(env->ctx, true);
    if (!s->in_flight && s->gathered && (rc = launch(s, e)) >= 0) {
        rc = land(s, e);
    }
    env->aside(env->ctx, false);
    return rc;
}

/* The floats that a state has in place of an optimizer state. */
static float *state_of(const struct hpsgd *s, size_t *n)
{
    *n = s->in_flight ? s->n : 0;
    return s->in_flight ? s->flying : NULL;
}

static int checkpoint(struct hpsgd *s, struct err *e)
{
    int rc = prepare_state(s, e);
    size_t n;
    float *sum = state_of(s, &n);
    if (rc < 0) {
        return rc;
    }
    return lockstep_checkpoint(&s->l, sum, n, e);
}

/* After the last step: merges the rounds that are left. */
static int end_rounds(struct hpsgd *s, struct err *e)
{
    if (s->in_flight) {
        return merge(s, e); /* a restart from the very end */
    }
    return s->gathered ? drain(s, e) : 0; /* the target was reached; else it is done already */
}

static int between_rounds(struct hpsgd *s, struct work *out, struct err *e)
{
    struct lockstep *l = &s->l;
    bool over = lockstep_over(l);
    int rc;
    if (lockstep_leaves(l, out)) {
        return prepare_state(s, e);
    }
    if (over && (rc = end_rounds(s, e)) < 0) {
        return rc;
    }
    if (lockstep_evaluates(l, out)) {
        return 0;
    }
    if (!over && l->at.checkpoint && (rc = checkpoint(s, e)) < 0) {
        return rc;
    }
    if (!over && !s->in_flight && s->gathered && (rc = launch(s, e)) < 0) {
        return rc;
    }
    lockstep_train(l, out);
    return 0;
}

static int next(struct strategy *base, struct work *out, struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    if (s->done == 0) {
        return between_rounds(s, out, e);
    }
    lockstep_train(&s->l, out);
    return 0;
}

static void on_bucket(struct strategy *base, const struct work *w, const struct dev_bucket *b,
                      int index, int n_buckets)
{
    struct dev_replica *r = ((struct hpsgd *)base)->l.env->replica;
    (void)w;
    (void)index;
    (void)n_buckets;
    r->dev->ops->fetch(r, DEV_GRADS, b->first, b->count, &base->failed);
}

/* Makes one step on the replica and adds its gradient to the round's sum. */
static int local_step(struct hpsgd *s, const struct work *w, struct err *e)
{
    const struct rank_env *env = s->l.env;
    struct dev_replica *r = env->replica;
    float *x = r->host[DEV_PARAMS];
    const float *g = r->host[DEV_GRADS];
    double clip = dev_clip(g, s->n, 1, env->spec->optimizer.clip_norm);
    struct flat_step step = {
        .scale = (float)clip,
        .decay = (float)env->spec->optimizer.weight_decay,
        .rate = (float)w->learning_rate,
        .weight = (float)(w->learning_rate * (w->weight / (double)s->l.slice.count))};
    flat_descend(x, s->g, g, env->decay, &step, s->n);
    return r->dev->ops->store(r, DEV_PARAMS, 0, s->n, e);
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    struct lockstep *l = &s->l;
    double begin = comm_now(l->env->comm);
    int rc = r->leaves ? leave(s, e) : w->weight > 0 ? local_step(s, w, e) : 0;
    if (rc < 0 || r->leaves) {
        return rc;
    }
    bool first = s->done == 0 && s->in_flight;
    int k = s->k; /* of this round */
    s->step_seconds = compute_s;
    s->weight += w->weight;
    s->samples += (double)l->slice.count;
    s->done++;
    lockstep_done(l);
    bool last = cursor_done(&l->at.cursor);
    if ((s->done == s->k || last || lockstep_may_end(l)) && (rc = end_round(s, e)) < 0) {
        return rc;
    }
    if (last && !l->at.stop && !l->at.pause && (rc = drain(s, e)) < 0) {
        return rc;
    }
    struct row row = lockstep_row(l, w, r, compute_s, begin);
    row.staleness = 1;
    row.bytes = first ? 2 * s->n * sizeof(float) : 0;
    row.strategy_value = (float)k;
    l->env->row(l->env->ctx, &row);
    return 0;
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    return lockstep_evaluated(&((struct hpsgd *)base)->l, w, r, e);
}

/* Evaluations and checkpoints come between rounds: where those are longer than the steps between
 * two of them, or than an epoch, there are fewer than the job asks for. */
static void warn_of_few_rounds(const struct hpsgd *s)
{
    const struct lockstep *l = &s->l;
    int64_t steps = l->at.step - s->first_step,
            every = agenda_shortest(&l->at.agenda, l->env->spec->batching.global_batch),
            planned = steps / every;
    if (l->env->comm->rank == 0 && !l->at.stop && !l->at.pause && s->round < planned) {
        log_warn("exchange", "the job ends with fewer synchronisations than its plan",
                 "rounds=%lld planned=%lld steps=%lld", (long long)s->round, (long long)planned,
                 (long long)steps);
    }
}

static int finish(struct strategy *base, struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    size_t n;
    warn_of_few_rounds(s);
    float *sum = state_of(s, &n);
    return lockstep_finish(&s->l, sum, n, e);
}

static void footprint(struct footprint *f)
{
    footprint_add_workers(f, "rounds' starts and sums", 2 * f->params);
    footprint_add_workers(f, "sums under way", f->params + 2 * f->stats + f->words);
    footprint_add_workers(f, "chunks of rings", f->chunk);
}

static const struct program_part program = {.momentum = MOMENTUM_NONE};

const struct strategy_ops strategy_HPSGD = {
    .id = CAT_STRATEGY_HPSGD,
    .program = &program,
    .start = start,
    .next = next,
    .on_bucket = on_bucket,
    .on_gradients = on_gradients,
    .on_evaluated = on_evaluated,
    .finish = finish,
    .free = release,
    .serve = lockstep_serve,
    .footprint = footprint,
};

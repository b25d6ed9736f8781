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
 * hidden. With `k: auto` the reduction that starts with round r carries each rank's time of a step
 * and of the last finished reduction. From these K of round r+1 follows, the same on all ranks
 * (round_length.h). Rounds 0, 1 and 2 have one step (docs/semantics.md#averages-and-rounds). The
 * slowest step counts, and the shortest reduction: the rank that joined it last waited for nobody,
 * while a rank that is ahead also counts its wait, which grows with K and would make K grow without
 * end. An automatic round is no longer than an epoch. Minibatches change, evaluations and
 * checkpoints happen only at a round's end, where every rank has the same w. The last round is
 * reduced as well.
 *
 * A user's program may give its gradients weights. Each gradient goes into G times weight / n, and
 * the summed G is corrected by the samples and the weights of the whole round (weights.c).
 *
 * Each gradient goes into G times its learning rate, because the rate may change within a round. A
 * checkpoint has the sum under way in place of an optimizer state, so that a restart gets the same
 * numbers. Running statistics are summed with each reduction and come back a round late; a rank
 * adds the change of its own statistics since then to the merged ones.
 *
 * When a worker dies, the others go back to the last sum that all have, and begin as at the start.
 * They make the steps since the launch of that sum again (docs/decisions/0050). Users' programs
 * keep their steps (hpsgd_onward.c). */
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/hpsgd_parts.h"

static void release(struct strategy *base)
{
    struct hpsgd *s = (struct hpsgd *)base;
    survival_free(s->survival);
    allreduce_release(&s->sum);
    lockstep_release(&s->l);
    free(s->w);
    free(s->g);
    free(s->flying);
    free(s->launched);
    free(s->mine);
    free(s->spare);
    free(s->counts);
    free(s->counts_then);
    free(s);
}

static int64_t steps_of_epoch(const struct rank_env *env)
{
    int64_t batch = env->spec->batching.global_batch;
    return batch > 0 ? (env->train_samples + batch - 1) / batch : 0;
}

static int give_up(void *ctx, struct err *e)
{
    return allreduce_cancel(&((struct hpsgd *)ctx)->sum, e);
}

/* Resets the lengths of rounds to those at the start. */
static void begin_rounds(struct hpsgd *s)
{
    s->given_k = (int)strategy_param(&s->l.env->spec->strategy, "k");
    s->k = s->given_k > 0 ? s->given_k : 1;
    s->length = (struct round_length){.most = steps_of_epoch(s->l.env)};
    s->round = s->done = 0;
    s->first_step = s->l.at.step;
}

/* Begins again from the replica, which all have. */
static void begin_again(struct hpsgd *s)
{
    memcpy(s->w, s->l.env->replica->host[DEV_PARAMS], s->n * sizeof(float));
    memset(s->g, 0, s->n * sizeof(float));
    s->in_flight = s->landed = s->restored = s->gathered = false;
    s->weight = s->samples = s->reduction_seconds = 0;
    begin_rounds(s);
}

/* Prepares for losses. All have the replica, and perhaps the sum of a checkpoint. */
static int init_survival(struct hpsgd *s, size_t all, struct err *e)
{
    if (!survival_is_possible(s->l.env)) {
        return 0;
    }
    s->survival = survival_new_of_averages(&s->l, true, give_up, s, NULL, e);
    if (s->survival && s->l.env->comes_back) {
        begin_again(s);
    } else if (s->survival && s->restored) {
        survival_landed(s->survival, s->w, s->flying);
    }
    if (s->survival && s->l.env->program.ahead > 0) {
        return hpsgd_keep(s, all, e);
    }
    return s->survival ? 0 : -(int)e->code;
}

static int init(struct hpsgd *s, struct rank_env *env, const struct run_state *state, struct err *e)
{
    size_t n = env->replica->count[DEV_PARAMS];
    s->n = n;
    s->n_stats = env->n_stats;
    lockstep_init(&s->l, env, state);
    s->weighing.l = env->program.weighed ? &s->l : NULL;
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
    begin_rounds(s);
    if (state->n_optim == n && state->optim) { /* the sum that was under way when the checkpoint was
                                                  written */
        memcpy(s->flying, state->optim, n * sizeof(float));
        s->in_flight = s->landed = s->restored = true;
    }
    return init_survival(s, all, e);
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

/* ---- the strategy ---------------------------------------------------------------------------- */

/* Prepares a state, which has the sum under way. The sum is launched early if need be, and merged
 * at its usual time. */
static int prepare_state(struct hpsgd *s, struct err *e)
{
    struct rank_env *env = s->l.env;
    int rc = 0;
    env->aside(env->ctx, true);
    if (!s->in_flight && s->gathered && (rc = hpsgd_launch(s, e)) >= 0) {
        rc = hpsgd_land(s, e);
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
    if (!hpsgd_has_place(s)) {
        s->l.asked_checkpoint = true;
        s->l.at.checkpoint = false;
        return 0;
    }
    return lockstep_checkpoint(&s->l, sum, n, e);
}

/* After the last step: merges the rounds that are left. */
static int end_rounds(struct hpsgd *s, struct err *e)
{
    if (s->in_flight) {
        return hpsgd_merge(s, e); /* the job was restarted at its end */
    }
    return s->gathered ? hpsgd_drain(s, e)
                       : 0; /* only where the target was reached; else this is done already */
}

/* If all have agreed to stop or to pause, and may do so here: sets *out. */
static int leave_job(struct hpsgd *s, struct work *out, struct err *e)
{
    struct lockstep_mark *at = &s->l.at;
    bool stop = at->stop, pause = at->pause;
    at->stop = at->pause = false; /* if a worker is lost now, steps follow first */
    int rc = prepare_state(s, e);
    if (rc >= 0 && hpsgd_has_place(s)) {
        at->stop = stop;
        at->pause = pause;
        lockstep_leaves(&s->l, out);
    }
    return rc;
}

static int between_rounds(struct hpsgd *s, struct work *out, struct err *e)
{
    struct lockstep *l = &s->l;
    bool over = lockstep_over(l);
    int rc;
    if (l->at.stop || l->at.pause) {
        if ((rc = leave_job(s, out, e)) < 0 || l->at.stop || l->at.pause) {
            return rc;
        }
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
    if (!over && !s->in_flight && s->gathered && (rc = hpsgd_launch(s, e)) < 0) {
        return rc;
    }
    lockstep_train(l, out);
    return 0;
}

static int find_next(struct hpsgd *s, struct work *out, struct err *e)
{
    int rc = s->keeps ? hpsgd_look(s, e) : survival_look(s->survival, e);
    if (rc < 0 || s->done == 0) {
        return rc < 0 ? rc : between_rounds(s, out, e);
    }
    lockstep_train(&s->l, out);
    return 0;
}

/* Call it with the result `rc` of an exchange. If a worker is lost, begins again with what all
 * have. */
static int recover(struct hpsgd *s, int rc, struct err *e)
{
    if (!s->keeps && (rc = survival_recover(s->survival, rc, NULL, e)) >= 0) {
        begin_again(s);
    }
    return rc;
}

static int next(struct strategy *base, struct work *out, struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    int rc = find_next(s, out, e);
    while (rc < 0 && (rc = recover(s, rc, e)) >= 0) {
        *out = (struct work){0};
        rc = find_next(s, out, e);
    }
    return rc;
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

/* After a step. */
static int end_step(struct hpsgd *s, struct err *e)
{
    struct lockstep *l = &s->l;
    bool last = cursor_done(&l->at.cursor);
    int rc = s->done == s->k || last || lockstep_may_end(l) ? hpsgd_end_round(s, e) : 0;
    return rc >= 0 && last && !l->at.stop && !l->at.pause ? hpsgd_drain(s, e) : rc;
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    struct lockstep *l = &s->l;
    double begin = comm_now(l->env->comm);
    int rc = r->leaves ? hpsgd_leave(s, e) : w->weight > 0 ? local_step(s, w, e) : 0;
    if (rc < 0 || r->leaves) {
        return rc;
    }
    bool first = s->done == 0 && s->in_flight;
    int k = s->k; /* the length of this round */
    s->step_seconds = compute_s;
    s->weight += w->weight;
    s->samples += (double)l->slice.count;
    s->done++;
    lockstep_note_measured(l, r);
    if ((rc = survival_count(s->survival, e)) < 0) {
        return rc;
    }
    if (s->keeps) {
        memcpy(s->counts, l->counts, (size_t)l->env->comm->workers * sizeof *s->counts);
    }
    lockstep_done(l);
    int64_t step = l->at.step;
    if ((rc = end_step(s, e)) < 0 && ((rc = recover(s, rc, e)) < 0 || l->at.step < step)) {
        return rc; /* the step is undone */
    }
    struct row row = lockstep_row(l, w, r, compute_s, begin);
    row.staleness = 1;
    row.bytes = first ? 2 * s->n * sizeof(float) : 0;
    row.strategy_value = (float)k;
    l->env->row(l->env->ctx, &row);
    survival_told(s->survival, &row);
    return 0;
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    int rc = hpsgd_arrive(s, MEETS_TO_TELL, e);
    while (rc >= 0 && (rc = lockstep_evaluated(&s->l, w, r, e)) < 0) {
        if (!s->keeps) {
            return recover(s, rc, e);
        }
        if ((rc = hpsgd_go_on(s, rc, e)) == RECOVERED) {
            break; /* the others have summed what all measured */
        }
    }
    if (rc < 0) {
        return rc;
    }
    survival_evaluated(s->survival);
    return 0;
}

static int finish(struct strategy *base, struct err *e)
{
    struct hpsgd *s = (struct hpsgd *)base;
    size_t n;
    lockstep_warn_of_few(&s->l, s->round, s->l.at.step - s->first_step);
    float *sum = state_of(s, &n);
    return s->survival ? survival_finish(s->survival, sum, n, e)
                       : lockstep_finish(&s->l, sum, n, e);
}

static void footprint(struct footprint *f)
{
    footprint_add_workers(f, "rounds' starts and sums", 2 * f->params);
    footprint_add_workers(f, "sums under way", f->params + 2 * f->stats + f->words);
    footprint_add_workers(f, "chunks of rings", f->chunk);
    double kept = f->spec->program.given ? 2 * f->params + f->stats + f->words : 0;
    f->survivors = f->workers > 1 ? f->params + f->stats + kept : 0; /* rollback.c, onward */
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

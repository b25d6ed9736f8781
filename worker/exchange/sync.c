/* Strategy `sync`: the sample-weighted mean gradient over all workers at every step, one update, the same on every rank.
 *
 *      rank 0   ▇▇▇▇▇▇▇▇ compute 93 ┐ buckets, last layers first, leave while the rest is still computed
 *      rank 1   ▇▇▇▇▇▇▇▇ compute 93 ├─► sum over ranks of (n_i / n) g_i ─► w <- update(w)      n = samples of this step
 *      rank 2   ▇▇▇▇▇▇▇▇ compute 46 ┘
 *
 * Whatever the minibatches, an update equals the one a single worker with the whole batch would make (SEMANTICS.md 1, 3). The last bucket
 * carries control words (lockstep.c): rank 0 alone reads the store and contributes the assignment and what was asked; everybody
 * contributes its loss, its time and whether it is not ready for a new minibatch. All ranks see the same sums and so agree without a
 * collective of their own (SEMANTICS.md 7): an assignment announced in step s is used from s+2 on, or later while anyone is not ready.
 *
 * The keeper (rank W) takes no part in steps: rank 0 sends it states, and it writes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "kernels/flat.h"
#include "worker/exchange/lockstep.h"
#include "worker/exchange/moments.h"

enum { BUCKETS = 256 };

struct sync {
    struct strategy base;
    struct lockstep l;
    double step_start;
    struct allreduce *buckets; /* [n_buckets] */
    size_t firsts[BUCKETS], floats[BUCKETS];
    int n_buckets;
    float *tail;               /* last bucket, running statistics, the words */
    float *near;               /* gradients in the device's memory, for messages from there; NULL: all go through the host */
};

static const struct dev_memory_ops *memory_of(const struct sync *s)
{
    return s->l.env->replica->dev->ops->memory;
}

/* Buckets but the last, which carries words of the host, are summed where they are if MPI takes them from there. Each rank decides for
 * itself:
 * the messages are the same. */
static void open_near(struct sync *s)
{
    const struct comm *c = s->l.env->comm;
    struct device *dev = s->l.env->replica ? s->l.env->replica->dev : NULL;
    struct transport *t = c->t;
    struct err why = {0};
    char quoted[600];
    if (!dev || !dev->ops->memory || c->native || c->workers < 2 ||
        !((t->ops->device_memory && t->ops->device_memory(t)) || dev->ops->memory->reachable(dev))) {
        return;
    }
    s->near = dev->ops->memory->take(dev, s->l.env->n_params, &why);
    if (s->near) {
        log_info("sync", "gradients are exchanged from the device's memory", "floats=%zu", s->l.env->n_params);
    } else {
        log_warn("sync", "gradients are exchanged through the host", "why=%s", log_quote(quoted, sizeof quoted, why.message));
    }
}

static struct strategy *start(struct rank_env *env, const struct run_state *state, struct err *e)
{
    struct sync *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        return NULL;
    }
    s->base.ops = &strategy_sync;
    lockstep_init(&s->l, env, state);
    open_near(s);
    return &s->base;
}

/* The first step shows how the buckets lie; they are the same for every minibatch. */
static void init_bucket(struct sync *s, const struct dev_bucket *b, int index, int n)
{
    struct comm *c = s->l.env->comm;
    BUG_ON(n > BUCKETS);
    if (!s->buckets) {
        s->n_buckets = n;
        s->buckets = calloc((size_t)n, sizeof *s->buckets);
        BUG_ON(!s->buckets);
    }
    size_t extra = index == n - 1 ? s->l.env->n_stats + lockstep_words(&s->l) : 0;
    allreduce_init(&s->buckets[index], c, COMM_ALL, b->count + extra);
    s->firsts[index] = b->first;
    s->floats[index] = b->count;
    struct err ignored; /* no memory for it on the device: this bucket goes through the host */
    if (s->near && !extra) {
        allreduce_place(&s->buckets[index], s->l.env->replica->dev, &ignored);
    }
    if (extra) {
        s->tail = malloc((b->count + extra) * sizeof(float));
        BUG_ON(!s->tail);
    }
}

static int next(struct strategy *base, struct work *out, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct lockstep *l = &s->l;
    int rc = 0;
    if (l->stop || l->pause) {
        out->action = l->stop ? DO_STOP : DO_PAUSE;
        return 0;
    }
    bool over = lockstep_over(l);
    if ((l->evaluate || (over && !l->evaluated_here)) && lockstep_test_part(l, out)) {
        return 0;
    }
    if (l->checkpoint) {
        l->checkpoint = false;
        rc = lockstep_send_state(l, NULL, 0, SAVE_CHECKPOINT, -1, e);
    }
    if (over || rc < 0) {
        out->action = DO_END;
        return rc;
    }
    lockstep_next(l, out);
    s->step_start = comm_now(l->env->comm);
    return 0;
}

static void on_bucket(struct strategy *base, const struct dev_bucket *b, int index, int n_buckets)
{
    struct sync *s = (struct sync *)base;
    struct dev_replica *r = s->l.env->replica;
    if (!s->buckets || s->buckets[index].comm == NULL) {
        init_bucket(s, b, index, n_buckets);
    }
    float *g = r->host[DEV_GRADS] + b->first;
    float share = (float)lockstep_share(&s->l);
    struct err ignored;
    if (s->buckets[index].dev) {
        memory_of(s)->fetch(r, DEV_GRADS, b->first, b->count, share, s->near + b->first, &ignored);
        allreduce_start(&s->buckets[index], s->near + b->first, b->count, 0);
        return;
    }
    r->dev->ops->fetch(r, DEV_GRADS, b->first, b->count, &ignored);
    flat_scale(g, g, share, b->count);
    if (index < n_buckets - 1) {
        allreduce_start(&s->buckets[index], g, b->count, 0);
    }
}

/* The last bucket goes when loss and time are known: right after the backward pass. */
static void start_tail(struct sync *s, const struct dev_result *r)
{
    int last = s->n_buckets - 1;
    size_t n = s->floats[last];
    struct rank_env *env = s->l.env;
    float *words = s->tail + n + env->n_stats;
    struct err ignored;
    memcpy(s->tail, env->replica->host[DEV_GRADS] + s->firsts[last], n * sizeof(float));
    if (env->n_stats > 0) {
        env->replica->dev->ops->fetch(env->replica, DEV_STATS, 0, env->n_stats, &ignored);
        moments_weigh(s->tail + n, env->replica->host[DEV_STATS], env->mean_of, env->n_stats, (float)lockstep_share(&s->l));
    }
    lockstep_write(&s->l, words, comm_now(env->comm) - s->step_start, 1);
    words[WORD_LOSS] = (float)r->loss;
    words[WORD_CORRECT] = (float)r->correct;
    allreduce_start(&s->buckets[last], s->tail, n + env->n_stats + lockstep_words(&s->l), lockstep_words(&s->l));
}

/* The sums, to where the update reads them: in one go, or each bucket from where it was summed. */
static int store_sums(struct sync *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    int rc = s->near ? 0 : r->dev->ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e);
    for (int i = 0; s->near && i < s->n_buckets && rc >= 0; i++) {
        rc = s->buckets[i].dev ? memory_of(s)->store(r, DEV_GRADS, s->firsts[i], s->floats[i], s->near + s->firsts[i], e)
                               : r->dev->ops->store(r, DEV_GRADS, s->firsts[i], s->floats[i], e);
    }
    return rc;
}

static int wait_buckets(struct sync *s, struct err *e)
{
    int rc = 0, last = s->n_buckets - 1;
    for (int i = 0; i < s->n_buckets && rc >= 0; i++) {
        rc = comm_wait(s->l.env->comm, &s->buckets[i].op, e);
    }
    if (rc >= 0) {
        struct dev_replica *r = s->l.env->replica;
        memcpy(r->host[DEV_GRADS] + s->firsts[last], s->tail, s->floats[last] * sizeof(float));
        rc = store_sums(s, e);
        if (rc >= 0 && r->count[DEV_STATS] > 0) {
            moments_settle(r->host[DEV_STATS], s->tail + s->floats[last], s->l.env->mean_of, r->count[DEV_STATS]);
            rc = r->dev->ops->store(r, DEV_STATS, 0, r->count[DEV_STATS], e);
        }
    }
    return rc;
}

static void report(struct sync *s, const struct work *w, const float *words, double compute_s, double ready)
{
    const struct lockstep *l = &s->l;
    struct rank_env *env = l->env;
    int W = env->comm->workers, rank = env->comm->rank;
    double now = comm_now(env->comm), exposed = now - ready, slowest = lockstep_slowest(l, words);
    double wait = slowest - words[WORDS + W + rank];
    wait = wait < 0 ? 0 : wait > exposed ? exposed : wait;
    struct step_row row = {.rank = rank, .step = l->step, .local_step = l->local_step,
                           .epoch = env->train_samples > 0 ? (double)l->applied / (double)env->train_samples : 0,
                           .batch = (int)w->slice.count, .loss = words[WORD_LOSS] / (float)l->slice.count,
                           .accuracy = words[WORD_CORRECT] / (float)l->slice.count, .compute_s = (float)compute_s,
                           .exchange_s = (float)(exposed - wait), .wait_s = (float)wait,
                           .bytes = env->comm->workers > 1 ? 2 * env->n_params * sizeof(float) * (size_t)(W - 1) / (size_t)W : 0,
                           .time = now - env->job_start, .extra = {NAN, 0}};
    env->row(env->ctx, &row);
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r, double compute_s, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct lockstep *l = &s->l;
    struct dev_replica *replica = l->env->replica;
    double ready = comm_now(l->env->comm);
    start_tail(s, r);
    int rc = wait_buckets(s, e);
    rc = rc < 0 ? rc : replica->dev->ops->update(replica, w->learning_rate, 1.0, e);
    if (rc < 0) {
        return rc;
    }
    const float *words = s->tail + s->floats[s->n_buckets - 1] + l->env->n_stats;
    if (!isfinite(words[WORD_LOSS])) {
        return err_set(e, ERR_DATA, "the loss is not finite any more at step %lld", (long long)(l->step + 1));
    }
    lockstep_done(l);
    lockstep_agree(l, words);
    report(s, w, words, compute_s, ready);
    return 0;
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r, struct err *e)
{
    struct sync *s = (struct sync *)base;
    int rc = lockstep_evaluated(&s->l, w, r, e);
    return rc > 0 ? lockstep_send_state(&s->l, NULL, 0, SAVE_BEST, -1, e) : rc;
}

static int finish(struct strategy *base, struct err *e)
{
    return lockstep_finish(&((struct sync *)base)->l, NULL, 0, e);
}

static void release(struct strategy *base)
{
    struct sync *s = (struct sync *)base;
    for (int i = 0; i < s->n_buckets; i++) {
        allreduce_release(&s->buckets[i]);
    }
    if (s->near) {
        memory_of(s)->give_back(s->l.env->replica->dev, s->near);
    }
    lockstep_release(&s->l);
    free(s->buckets);
    free(s->tail);
    free(s);
}

const struct strategy_ops strategy_sync = {
    .id = CAT_STRATEGY_SYNC, .server = false, .start = start, .next = next, .on_bucket = on_bucket, .on_gradients = on_gradients,
    .on_evaluated = on_evaluated, .finish = finish, .free = release, .serve = lockstep_serve,
};

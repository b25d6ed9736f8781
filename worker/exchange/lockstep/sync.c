/* Strategy `sync`: the sample-weighted mean gradient over all workers at every step, one update,
 * the same on every rank.
 *
 *      rank 0   ▇▇▇▇▇▇▇▇ compute 93 ┐ buckets, last layers first, leave while the rest is still computed
 *      rank 1   ▇▇▇▇▇▇▇▇ compute 93 ├─► sum over ranks of (n_i / n) g_i ─► w <- update(w)      n = samples of this step
 *      rank 2   ▇▇▇▇▇▇▇▇ compute 46 ┘
 *
 * Whatever the minibatches, an update equals the one a single worker with the whole batch would
 * make (SEMANTICS.md 1, 3). The last bucket carries control words (lockstep.c): rank 0 alone reads
 * the store and contributes the assignment and what was asked; everybody contributes its loss, its
 * time and whether it is not ready for a new minibatch. All ranks see the same sums and so agree
 * without a collective of their own (SEMANTICS.md 7): an assignment announced in step s is used
 * from s+2 on, or later while anyone is not ready.
 *
 * Where the device can, parameters are updated part by part, as a ring gives their sums, while the
 * others are still under way; an optimizer that clips has to wait for all of them.
 *
 * A single worker's gradients stay where they are. Where MPI takes the device's pointers (near.c),
 * buckets are summed there: the last one with what the host adds to it behind it.
 *
 * The keeper (rank W) takes no part in steps: rank 0 sends it states, and it writes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/lockstep.h"
#include "worker/exchange/moments.h"
#include "worker/exchange/gradients/device_buffer.h"

enum { BUCKETS = 256 };

struct sync {
    struct strategy base;
    struct lockstep l;
    double step_start;
    struct allreduce *buckets; /* [n_buckets] */
    size_t firsts[BUCKETS], floats[BUCKETS];
    int n_buckets;
    float *tail;    /* last bucket, running statistics, the words (a single worker's has no bucket);
                       NULL: they are in the device's memory */
    float *moments; /* [extra] running statistics and words, as the host writes them: of the tail,
                       or near.words */
    const float *sums; /* [extra] their sums: as moments, or where the transport lends them */
    size_t extra;
    bool by_parts;    /* the update goes with the sums */
    struct near near; /* [extra + n_params] */
};

static bool alone(const struct comm *c)
{
    return c->workers == 1;
}

static bool is_last(const struct sync *s, int bucket)
{
    return bucket == s->n_buckets - 1;
}

/* Where a bucket is summed in the device's memory: the last one, which are the first layers, in
 * front, and room for the words behind it. */
static float *near_at(const struct sync *s, int bucket)
{
    return s->near.memory + s->firsts[bucket] + (is_last(s, bucket) ? 0 : s->extra);
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
    s->extra = env->n_stats + lockstep_words(&s->l);
    if (alone(env->comm)) {
        s->tail = malloc(s->extra * sizeof(float));
        BUG_ON(!s->tail);
        s->sums = s->moments = s->tail;
    } else if (!env->comm->native) {
        near_open(&s->near, env, s->extra + env->n_params, s->extra);
    }
    s->by_parts = !alone(env->comm) && !s->near.dev && env->replica->dev->ops->parts &&
                  env->spec->optimizer.clip_norm <= 0;
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
    size_t extra = is_last(s, index) ? s->extra : 0;
    allreduce_init(&s->buckets[index], c, COMM_ALL, b->count + extra);
    s->buckets[index].shares = !is_last(s, index);
    s->firsts[index] = b->first;
    s->floats[index] = b->count;
    struct err ignored; /* no memory for it on the device: this bucket goes through the host */
    if (s->near.dev) {
        allreduce_place(&s->buckets[index], s->near.dev, &ignored);
    }
    if (extra && !s->buckets[index].dev) {
        s->tail = malloc((b->count + extra) * sizeof(float));
        BUG_ON(!s->tail);
    }
    s->buckets[index].lent = n == 1 && s->tail && s->l.env->replica->dev->ops->alias;
    if (extra) {
        BUG_ON(b->first != 0);
        s->moments = s->tail ? s->tail + b->count : s->near.words;
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
    if (alone(s->l.env->comm)) {
        return;
    }
    if (!s->buckets || s->buckets[index].comm == NULL) {
        init_bucket(s, b, index, n_buckets);
    }
    struct allreduce *sum = &s->buckets[index];
    float *g = sum->dev ? near_at(s, index) : r->host[DEV_GRADS] + b->first;
    float share = (float)lockstep_share(&s->l);
    int rc = sum->dev
                 ? s->near.ops->fetch(r, DEV_GRADS, b->first, b->count, share, g, &base->failed)
                 : r->dev->ops->fetch(r, DEV_GRADS, b->first, b->count, &base->failed);
    if (rc < 0) {
        return;
    }
    if (!sum->dev) {
        flat_scale(is_last(s, index) ? s->tail : g, g, share, b->count);
    }
    if (!is_last(s, index)) {
        allreduce_start(sum, g, b->count, 0);
    }
}

static void write_words(struct sync *s, const struct dev_result *r)
{
    float *words = s->moments + s->l.env->n_stats;
    lockstep_write(&s->l, words, comm_now(s->l.env->comm) - s->step_start, 1);
    words[WORD_LOSS] = (float)r->loss;
    words[WORD_CORRECT] = (float)r->correct;
}

static int write_moments(struct sync *s, struct err *e)
{
    struct rank_env *env = s->l.env;
    if (env->n_stats == 0) {
        return 0;
    }
    int rc = env->replica->dev->ops->fetch(env->replica, DEV_STATS, 0, env->n_stats, e);
    moments_weigh(s->moments, env->replica->host[DEV_STATS], env->mean_of, env->n_stats,
                  (float)lockstep_share(&s->l));
    return rc;
}

/* The last bucket goes when loss and time are known: right after the backward pass. Statistics and
 * words are behind it. */
static int start_tail(struct sync *s, const struct dev_result *r, struct err *e)
{
    int last = s->n_buckets - 1, rc = write_moments(s, e);
    size_t n = s->floats[last];
    write_words(s, r);
    float *tail = s->tail ? s->tail : near_at(s, last);
    if (!s->tail && rc >= 0) {
        rc = s->near.ops->put(s->near.dev, tail + n, s->moments, s->extra, e);
    }
    if (rc >= 0) {
        allreduce_start(&s->buckets[last], tail, n + s->extra, lockstep_words(&s->l));
    }
    return rc;
}

/* The last bucket's sum, behind which are those of the moments, to the others'. A lent one is the
 * only one, and the update reads it there. */
static int take_tail(struct sync *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    int last = s->n_buckets - 1;
    const struct allreduce *tail = &s->buckets[last];
    if (!s->tail) {
        s->sums = s->moments;
        return s->near.ops->get(s->near.dev, s->moments, near_at(s, last) + s->floats[last],
                                s->extra, e);
    }
    s->sums = tail->sum + s->floats[last];
    if (tail->lent) {
        dev_alias(r, DEV_GRADS, tail->sum);
    } else {
        memcpy(r->host[DEV_GRADS], s->tail, s->floats[last] * sizeof(float));
    }
    return 0;
}

/* The sums, to where the update reads them: in one go, or each bucket from where it was summed. */
static int store_sums(struct sync *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    int rc = s->near.dev ? 0 : r->dev->ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e);
    for (int i = 0; s->near.dev && i < s->n_buckets && rc >= 0; i++) {
        rc = s->buckets[i].dev
                 ? s->near.ops->store(r, DEV_GRADS, s->firsts[i], s->floats[i], near_at(s, i), e)
                 : r->dev->ops->store(r, DEV_GRADS, s->firsts[i], s->floats[i], e);
    }
    return rc;
}

/* The last bucket's sums go to the others', as in take_tail. */
static int update_bucket(struct sync *s, int bucket, double learning_rate, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    size_t first, n;
    int left = 0, rc = 0;
    while (rc >= 0 && (left = allreduce_next_part(&s->buckets[bucket], &first, &n, e)) > 0) {
        size_t at = s->firsts[bucket] + first, end = s->floats[bucket];
        n = first + n < end ? n : first < end ? end - first : 0; /* no moments, no words */
        if (is_last(s, bucket)) {
            memcpy(r->host[DEV_GRADS] + at, s->tail + first, n * sizeof(float));
        }
        rc = r->dev->ops->store(r, DEV_GRADS, at, n, e);
        rc = rc < 0 ? rc
                    : dev_update_part(r, at, n, learning_rate, 1.0, left == 1 && is_last(s, bucket),
                                      e);
    }
    return left < 0 ? left : rc;
}

static int update_as_they_come(struct sync *s, double learning_rate, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < s->n_buckets && rc >= 0; i++) {
        rc = update_bucket(s, i, learning_rate, e);
    }
    s->sums = s->moments;
    return rc;
}

static int update_at_the_end(struct sync *s, double learning_rate, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    int rc = 0;
    for (int i = 0; i < s->n_buckets && rc >= 0; i++) {
        rc = comm_wait(s->l.env->comm, &s->buckets[i].op, e);
    }
    rc = rc < 0 ? rc : take_tail(s, e);
    rc = rc < 0 ? rc : store_sums(s, e);
    return rc < 0 ? rc : r->dev->ops->update(r, learning_rate, 1.0, e);
}

static int take_sums(struct sync *s, double learning_rate, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    int rc = s->by_parts ? update_as_they_come(s, learning_rate, e)
                         : update_at_the_end(s, learning_rate, e);
    if (rc >= 0 && r->count[DEV_STATS] > 0) {
        moments_settle(r->host[DEV_STATS], s->sums, s->l.env->mean_of, r->count[DEV_STATS]);
        rc = r->dev->ops->store(r, DEV_STATS, 0, r->count[DEV_STATS], e);
    }
    return rc;
}

static void report(struct sync *s, const struct work *w, const float *words, double compute_s,
                   double ready)
{
    const struct lockstep *l = &s->l;
    struct rank_env *env = l->env;
    int W = env->comm->workers;
    struct row row = lockstep_row(l, w, NULL, compute_s, ready);
    float wait = lockstep_slowest(l, words) - words[WORDS + W + row.rank];
    row.wait_seconds = wait < 0 ? 0 : wait > row.exchange_seconds ? row.exchange_seconds : wait;
    row.exchange_seconds -= row.wait_seconds;
    row.loss = words[WORD_LOSS] / (float)l->slice.count;
    row.accuracy = words[WORD_CORRECT] / (float)l->slice.count;
    row.bytes = W > 1 ? 2 * env->n_params * sizeof(float) * (size_t)(W - 1) / (size_t)W : 0;
    env->row(env->ctx, &row);
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct lockstep *l = &s->l;
    struct dev_replica *replica = l->env->replica;
    double ready = comm_now(l->env->comm);
    int rc = 0;
    if (!alone(l->env->comm)) {
        rc = start_tail(s, r, e);
        rc = rc < 0 ? rc : take_sums(s, w->learning_rate, e);
    } else {
        write_words(s, r);
        rc = w->updated ? 0 : replica->dev->ops->update(replica, w->learning_rate, 1.0, e);
    }
    if (rc < 0) {
        return rc;
    }
    if (s->n_buckets == 1 && s->buckets[0].lent) {
        dev_alias(replica, DEV_GRADS, NULL);
    }
    const float *words = s->sums + s->l.env->n_stats;
    if (!isfinite(words[WORD_LOSS])) {
        return err_set(e, ERR_DATA, "the loss is not finite any more at step %lld",
                       (long long)(l->step + 1));
    }
    lockstep_done(l);
    lockstep_agree(l, words);
    report(s, w, words, compute_s, ready);
    return 0;
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
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
    near_close(&s->near);
    lockstep_release(&s->l);
    free(s->buckets);
    free(s->tail);
    free(s);
}

const struct strategy_ops strategy_sync = {
    .id = CAT_STRATEGY_SYNC,
    .server = false,
    .alone = alone,
    .start = start,
    .next = next,
    .on_bucket = on_bucket,
    .on_gradients = on_gradients,
    .on_evaluated = on_evaluated,
    .finish = finish,
    .free = release,
    .serve = lockstep_serve,
};

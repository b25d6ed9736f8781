/* Strategy `sync`: the sample-weighted mean gradient over all workers at every step, one update, the same on every rank.
 *
 *      rank 0   ▇▇▇▇▇▇▇▇ compute 93 ┐ buckets, last layers first, leave while the rest is still computed
 *      rank 1   ▇▇▇▇▇▇▇▇ compute 93 ├─► sum over ranks of (n_i / n) g_i ─► w <- update(w)      n = samples of this step
 *      rank 2   ▇▇▇▇▇▇▇▇ compute 46 ┘
 *
 * Whatever the minibatches, an update equals the one a single worker with the whole batch would make (SEMANTICS.md 1, 3). The last bucket
 * carries control words: rank 0 alone reads the store and contributes the assignment and what was asked; everybody contributes its
 * loss, its time and whether it is not ready for a new minibatch. All ranks see the same sums and so agree without a collective of
 * their own (SEMANTICS.md 7): an assignment announced in step s is used from s+2 on, or later while anyone is not ready.
 *
 * The keeper (rank W) takes no part in steps: rank 0 sends it states, and it writes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/strategies.h"

enum { TAG_STATE = 10 };

/* words behind the last bucket; then W sizes, then W times */
enum { WORD_LOSS, WORD_CORRECT, WORD_NOT_READY, WORD_VERSION, WORD_STOP, WORD_PAUSE, WORD_CHECKPOINT, WORDS };

struct state_head { /* of a state that rank 0 gives to the keeper; three bodies follow */
    int64_t version, applied;
    int64_t samples, epochs, epoch, position; /* the cursor */
    int64_t n_params, n_optim, n_stats;
    double accuracy, loss;
    int32_t why, outcome; /* outcome: -1 goes on, else serve()'s result, without a state if why < 0 */
};

struct sync {
    struct strategy base;
    struct rank_env *env;
    struct cursor cursor;
    struct agenda agenda;
    int64_t step, applied, local_step;
    int version, sizes[SPEC_WORKERS];
    int next_version, next_sizes[SPEC_WORKERS]; /* announced; next_version 0: none */
    bool known;                                 /* the announced one was known when this step's words were written */
    struct slice slice;                         /* of the whole step */
    int64_t counts[SPEC_WORKERS];
    double step_start;
    struct allreduce *buckets; /* [n_buckets] */
    size_t firsts[256], floats[256];
    int n_buckets;
    float *tail;               /* last bucket, words, sizes, times */
    struct allreduce sums;     /* of an evaluation */
    float sum_words[3];
    double last_loss, last_accuracy, best;
    bool evaluated_here;       /* this very version was evaluated */
    bool stop, pause, checkpoint, target_reached, evaluate, ending;
};

/* ---- start -------------------------------------------------------------------------------------------------- */

static void check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    (void)spec;
    (void)problems;
}

static struct strategy *start(struct rank_env *env, const struct run_state *state, struct err *e)
{
    struct sync *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        return NULL;
    }
    s->base.ops = &strategy_sync;
    s->env = env;
    s->cursor = state->cursor;
    s->step = state->version;
    s->applied = state->applied_samples;
    s->version = env->first_version;
    memcpy(s->sizes, env->first_sizes, sizeof s->sizes);
    s->best = json_is_object(state->extra) ? json_number_value(json_object_get(state->extra, "best")) : 0;
    agenda_init(&s->agenda, env->spec, env->train_samples, s->applied, s->step, comm_now(env->comm));
    allreduce_init(&s->sums, env->comm, COMM_ALL, 3);
    return &s->base;
}

/* The first step shows how the buckets lie; they are the same for every minibatch. */
static void init_bucket(struct sync *s, const struct dev_bucket *b, int index, int n)
{
    struct comm *c = s->env->comm;
    BUG_ON(n > 256);
    if (!s->buckets) {
        s->n_buckets = n;
        s->buckets = calloc((size_t)n, sizeof *s->buckets);
        BUG_ON(!s->buckets);
    }
    size_t extra = index == n - 1 ? WORDS + 2 * (size_t)c->workers : 0;
    allreduce_init(&s->buckets[index], c, COMM_ALL, b->count + extra);
    s->firsts[index] = b->first;
    s->floats[index] = b->count;
    if (extra) {
        s->tail = malloc((b->count + extra) * sizeof(float));
        BUG_ON(!s->tail);
    }
}

/* ---- a step -------------------------------------------------------------------------------------------------- */

static bool share_test_set(struct sync *s, struct work *out)
{
    const struct rank_env *env = s->env;
    double sum = 0, before = 0;
    for (int i = 0; i < env->comm->workers; i++) {
        double v = env->speeds[i] > 0 ? env->speeds[i] : 1;
        before += i < env->comm->rank ? v : 0;
        sum += v;
    }
    double mine = env->speeds[env->comm->rank] > 0 ? env->speeds[env->comm->rank] : 1;
    int64_t n = env->test_samples, a = (int64_t)((double)n * before / sum + 0.5), b = (int64_t)((double)n * (before + mine) / sum + 0.5);
    out->action = DO_EVALUATE;
    out->eval_first = a;
    out->eval_count = (env->comm->rank == env->comm->workers - 1 ? n : b) - a;
    out->batch = s->sizes[env->comm->rank];
    return n > 0;
}

static int64_t offset_of(const struct sync *s)
{
    int64_t at = s->slice.start;
    for (int i = 0; i < s->env->comm->rank; i++) {
        at += s->counts[i];
    }
    return at;
}

/* What probably comes next, for the loader. */
static void hint(struct sync *s, struct work *out)
{
    struct cursor ahead = s->cursor;
    struct slice next;
    int64_t counts[SPEC_WORKERS];
    int rank = s->env->comm->rank;
    if (cursor_take(&ahead, s->env->spec->batching.global_batch, &next)) {
        sample_split(next.count, s->sizes, s->env->comm->workers, counts);
        out->hint = next;
        for (int i = 0; i < rank; i++) {
            out->hint.start += counts[i];
        }
        out->hint.count = counts[rank];
    }
}

static int send_state(struct sync *s, int why, int outcome, struct err *e);

static int next(struct strategy *base, struct work *out, struct err *e)
{
    struct sync *s = (struct sync *)base;
    int rank = s->env->comm->rank, rc = 0;
    if (s->stop || s->pause) {
        out->action = s->stop ? DO_STOP : DO_PAUSE;
        return 0;
    }
    bool over = cursor_done(&s->cursor) || s->target_reached;
    if ((s->evaluate || (over && !s->evaluated_here)) && share_test_set(s, out)) {
        return 0;
    }
    if (s->checkpoint) {
        s->checkpoint = false;
        rc = send_state(s, SAVE_CHECKPOINT, -1, e);
    }
    if (over || rc < 0) {
        out->action = DO_END;
        s->ending = true;
        return rc;
    }
    BUG_ON(!cursor_take(&s->cursor, s->env->spec->batching.global_batch, &s->slice));
    sample_split(s->slice.count, s->sizes, s->env->comm->workers, s->counts);
    out->action = DO_TRAIN;
    out->slice = s->slice;
    out->slice.start = offset_of(s);
    out->slice.count = s->counts[rank];
    out->batch = s->sizes[rank] > 0 ? s->sizes[rank] : 1;
    if (out->batch < out->slice.count) {
        out->batch = (int)out->slice.count;
    }
    out->learning_rate = jobspec_rate(&s->env->spec->optimizer, slice_epoch(&s->slice, s->env->train_samples));
    out->next_batch = s->next_version ? s->next_sizes[rank] : 0;
    hint(s, out);
    s->step_start = comm_now(s->env->comm);
    return 0;
}

static void write_words(struct sync *s, float *words)
{
    struct rank_env *env = s->env;
    int W = env->comm->workers, rank = env->comm->rank;
    memset(words, 0, (WORDS + 2 * (size_t)W) * sizeof(float));
    s->known = s->next_version != 0;
    words[WORD_NOT_READY] = s->known && s->next_sizes[rank] > 0 && !env->ready(env->ctx, s->next_sizes[rank]);
    words[WORDS + W + rank] = (float)(comm_now(env->comm) - s->step_start);
    if (rank == 0) {
        struct control control;
        memset(&control, 0, sizeof control);
        env->control(env->ctx, &control);
        words[WORD_VERSION] = (float)control.version;
        words[WORD_STOP] = control.stop;
        words[WORD_PAUSE] = control.pause;
        words[WORD_CHECKPOINT] = control.checkpoint || agenda_checkpoint(&s->agenda, s->step + 1, comm_now(env->comm));
        for (int i = 0; i < W; i++) {
            words[WORDS + i] = (float)control.sizes[i];
        }
    }
}

static void on_bucket(struct strategy *base, const struct dev_bucket *b, int index, int n_buckets)
{
    struct sync *s = (struct sync *)base;
    struct rank_env *env = s->env;
    struct dev_replica *r = env->replica;
    if (!s->buckets || s->buckets[index].comm == NULL) {
        init_bucket(s, b, index, n_buckets);
    }
    float *g = r->host[DEV_GRADS] + b->first;
    float share = (float)((double)s->counts[env->comm->rank] / (double)s->slice.count);
    struct err ignored;
    r->dev->ops->fetch(r, DEV_GRADS, b->first, b->count, &ignored);
    for (size_t i = 0; i < b->count; i++) {
        g[i] *= share;
    }
    if (index < n_buckets - 1) {
        allreduce_start(&s->buckets[index], g, b->count);
    }
}

/* The last bucket goes when loss and time are known: right after the backward pass. */
static void start_tail(struct sync *s, const struct dev_result *r)
{
    int last = s->n_buckets - 1;
    size_t n = s->floats[last];
    float *words = s->tail + n;
    memcpy(s->tail, s->env->replica->host[DEV_GRADS] + s->firsts[last], n * sizeof(float));
    write_words(s, words);
    words[WORD_LOSS] = (float)r->loss;
    words[WORD_CORRECT] = (float)r->correct;
    allreduce_start(&s->buckets[last], s->tail, n + WORDS + 2 * (size_t)s->env->comm->workers);
}

static int wait_buckets(struct sync *s, struct err *e)
{
    int rc = 0, last = s->n_buckets - 1;
    for (int i = 0; i < s->n_buckets && rc >= 0; i++) {
        rc = comm_wait(s->env->comm, &s->buckets[i].op, e);
    }
    if (rc >= 0) {
        struct dev_replica *r = s->env->replica;
        memcpy(r->host[DEV_GRADS] + s->firsts[last], s->tail, s->floats[last] * sizeof(float));
        rc = r->dev->ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e);
    }
    return rc;
}

/* Adopts what was announced earlier if everybody was ready; takes note of what is announced now. */
static void agree(struct sync *s, const float *words)
{
    int W = s->env->comm->workers, announced = (int)words[WORD_VERSION];
    if (s->known && announced == s->next_version && words[WORD_NOT_READY] == 0) {
        s->version = s->next_version;
        memcpy(s->sizes, s->next_sizes, sizeof s->sizes);
        s->next_version = 0;
    } else if (announced > s->version && announced != s->next_version) {
        s->next_version = announced;
        for (int i = 0; i < W; i++) {
            s->next_sizes[i] = (int)words[WORDS + i];
        }
    }
    s->stop = words[WORD_STOP] > 0;
    s->pause = words[WORD_PAUSE] > 0;
    s->checkpoint = words[WORD_CHECKPOINT] > 0;
}

static void report(struct sync *s, const struct work *w, const float *words, double compute_s, double ready)
{
    struct rank_env *env = s->env;
    int W = env->comm->workers, rank = env->comm->rank;
    double now = comm_now(env->comm), exposed = now - ready, slowest = 0;
    for (int i = 0; i < W; i++) {
        slowest = words[WORDS + W + i] > slowest ? words[WORDS + W + i] : slowest;
    }
    double wait = slowest - words[WORDS + W + rank];
    wait = wait < 0 ? 0 : wait > exposed ? exposed : wait;
    struct step_row row = {.rank = rank, .step = s->step, .local_step = s->local_step,
                           .epoch = env->train_samples > 0 ? (double)s->applied / (double)env->train_samples : 0,
                           .batch = (int)w->slice.count, .loss = words[WORD_LOSS] / (float)s->slice.count,
                           .accuracy = words[WORD_CORRECT] / (float)s->slice.count, .compute_s = (float)compute_s,
                           .exchange_s = (float)(exposed - wait), .wait_s = (float)wait,
                           .bytes = env->comm->workers > 1 ? 2 * env->n_params * sizeof(float) * (size_t)(W - 1) / (size_t)W : 0,
                           .time = now - env->job_start};
    env->row(env->ctx, &row);
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r, double compute_s, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct dev_replica *replica = s->env->replica;
    double ready = comm_now(s->env->comm);
    start_tail(s, r);
    int rc = wait_buckets(s, e);
    rc = rc < 0 ? rc : replica->dev->ops->update(replica, w->learning_rate, 1.0, e);
    if (rc < 0) {
        return rc;
    }
    const float *words = s->tail + s->floats[s->n_buckets - 1];
    if (!isfinite(words[WORD_LOSS])) {
        return err_set(e, ERR_DATA, "the loss is not finite any more at step %lld", (long long)(s->step + 1));
    }
    s->step++;
    s->local_step += w->slice.count > 0;
    s->applied += s->slice.count;
    s->evaluated_here = false;
    s->evaluate = agenda_evaluate(&s->agenda, s->applied, s->step);
    agree(s, words);
    report(s, w, words, compute_s, ready);
    return 0;
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r, struct err *e)
{
    struct sync *s = (struct sync *)base;
    struct rank_env *env = s->env;
    s->sum_words[0] = (float)r->loss;
    s->sum_words[1] = (float)r->correct;
    s->sum_words[2] = (float)w->eval_count;
    allreduce_start(&s->sums, s->sum_words, 3);
    int rc = comm_wait(env->comm, &s->sums.op, e);
    if (rc < 0) {
        return rc;
    }
    double n = s->sum_words[2] > 0 ? s->sum_words[2] : 1;
    s->last_loss = s->sum_words[0] / n;
    s->last_accuracy = s->sum_words[1] / n;
    s->evaluate = false;
    s->evaluated_here = true;
    s->target_reached = env->spec->target_accuracy > 0 && s->last_accuracy >= env->spec->target_accuracy;
    struct evaluation ev = {.step = s->step, .epoch = (double)s->applied / (double)env->train_samples, .time = comm_now(env->comm) - env->job_start,
                            .loss = s->last_loss, .accuracy = s->last_accuracy, .samples = (int64_t)n,
                            .final = cursor_done(&s->cursor) || s->target_reached};
    if (env->comm->rank == 0) {
        env->evaluated(env->ctx, &ev);
    }
    if (s->last_accuracy > s->best) {
        s->best = s->last_accuracy;
        return send_state(s, SAVE_BEST, -1, e);
    }
    return 0;
}

/* ---- states: rank 0 → keeper --------------------------------------------------------------------------------- */

static int send_block(struct sync *s, float *data, size_t n, struct err *e)
{
    struct message m;
    char none = 0;
    if (n == 0) {
        return 0;
    }
    message_send(&m, s->env->comm, s->env->comm->workers, TAG_STATE + 1, &none, 1, data, n);
    return comm_wait(s->env->comm, &m.op, e);
}

static int send_state(struct sync *s, int why, int outcome, struct err *e)
{
    struct rank_env *env = s->env;
    struct dev_replica *r = env->replica;
    if (env->comm->rank != 0) {
        return 0;
    }
    int rc = 0;
    for (int b = 0; b < DEV_BLOCKS && rc >= 0; b++) {
        rc = b == DEV_GRADS || !r->count[b] ? 0 : r->dev->ops->fetch(r, (enum dev_block)b, 0, r->count[b], e);
    }
    struct state_head head = {.version = s->step, .applied = s->applied, .samples = s->cursor.samples, .epochs = s->cursor.epochs,
                              .epoch = s->cursor.epoch, .position = s->cursor.position, .n_params = (int64_t)r->count[DEV_PARAMS],
                              .n_optim = (int64_t)r->count[DEV_OPTIM], .n_stats = (int64_t)r->count[DEV_STATS],
                              .accuracy = s->evaluated_here ? s->last_accuracy : -1, .loss = s->last_loss, .why = why, .outcome = outcome};
    struct message m;
    message_send(&m, env->comm, env->comm->workers, TAG_STATE, &head, sizeof head, NULL, 0);
    rc = rc < 0 ? rc : comm_wait(env->comm, &m.op, e);
    if (why >= 0) {
        rc = rc < 0 ? rc : send_block(s, r->host[DEV_PARAMS], r->count[DEV_PARAMS], e);
        rc = rc < 0 ? rc : send_block(s, r->host[DEV_OPTIM], r->count[DEV_OPTIM], e);
        rc = rc < 0 ? rc : send_block(s, r->host[DEV_STATS], r->count[DEV_STATS], e);
    }
    return rc;
}

static int finish(struct strategy *base, struct err *e)
{
    struct sync *s = (struct sync *)base;
    if (s->ending) {
        return send_state(s, SAVE_FINAL, 0, e);
    }
    return send_state(s, s->pause && !s->stop ? (int)SAVE_PAUSE : (int)SAVE_CHECKPOINT, s->stop ? 2 : 1, e);
}

static void release(struct strategy *base)
{
    struct sync *s = (struct sync *)base;
    for (int i = 0; i < s->n_buckets; i++) {
        allreduce_release(&s->buckets[i]);
    }
    allreduce_release(&s->sums);
    free(s->buckets);
    free(s->tail);
    free(s);
}

/* The keeper's half: takes states until the last one. */
static int take_block(struct rank_env *env, float **block, int64_t n, struct err *e)
{
    struct message m;
    char none;
    if (n <= 0) {
        return 0;
    }
    if (!*block && !(*block = malloc((size_t)n * sizeof(float)))) {
        return err_set(e, ERR_MEMORY, "cannot hold a state of %lld floats: memory ran out", (long long)n);
    }
    message_recv(&m, env->comm, 0, TAG_STATE + 1, &none, 1, *block, (size_t)n);
    return comm_wait(env->comm, &m.op, e);
}

static int serve(struct rank_env *env, const struct run_state *from, struct err *e)
{
    float *params = NULL, *optim = NULL, *stats = NULL;
    struct state_head head = {.outcome = -1};
    struct run_state *state = calloc(1, sizeof *state);
    json_t *extra = json_object();
    double deadline = env->comm->deadline, best = json_is_object(from->extra) ? json_number_value(json_object_get(from->extra, "best")) : 0;
    int rc = state ? 0 : err_set(e, ERR_MEMORY, "cannot serve: memory ran out");
    env->comm->deadline = 0; /* the next state may be hours away; heartbeats tell who is alive */
    while (rc >= 0 && head.outcome < 0) {
        struct message m;
        message_recv(&m, env->comm, 0, TAG_STATE, &head, sizeof head, NULL, 0);
        rc = comm_wait(env->comm, &m.op, e);
        rc = rc < 0 || head.why < 0 ? rc : take_block(env, &params, head.n_params, e);
        rc = rc < 0 || head.why < 0 ? rc : take_block(env, &optim, head.n_optim, e);
        rc = rc < 0 || head.why < 0 ? rc : take_block(env, &stats, head.n_stats, e);
        if (rc < 0 || head.why < 0) {
            continue;
        }
        best = head.why == SAVE_BEST && head.accuracy > best ? head.accuracy : best;
        json_object_set_new(extra, "best", json_real(best));
        *state = (struct run_state){.params = params, .optim = optim, .stats = stats, .n_params = (size_t)head.n_params,
                                    .n_optim = (size_t)head.n_optim, .n_stats = (size_t)head.n_stats, .version = head.version,
                                    .applied_samples = head.applied, .cursor = {head.samples, head.epochs, head.epoch, head.position},
                                    .extra = extra, .test_accuracy = head.accuracy, .test_loss = head.loss};
        state->why = head.why == SAVE_FINAL ? SAVE_FINAL : head.why == SAVE_BEST ? SAVE_BEST : head.why == SAVE_PAUSE ? SAVE_PAUSE : SAVE_CHECKPOINT;
        rc = env->save ? env->save(env->ctx, state, e) : 0;
    }
    env->comm->deadline = deadline;
    json_decref(extra);
    free(params);
    free(optim);
    free(stats);
    free(state);
    return rc < 0 ? rc : head.outcome;
}

const struct strategy_ops strategy_sync = {
    .id = CAT_STRATEGY_SYNC, .server = false, .check = check, .start = start, .next = next, .on_bucket = on_bucket,
    .on_gradients = on_gradients, .on_evaluated = on_evaluated, .finish = finish, .free = release, .serve = serve,
};

/* Steps in common: see lockstep.h. */
#include "worker/exchange/lockstep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_STATE = 10 };

struct state_head { /* of a state that rank 0 gives to the keeper; three bodies follow */
    int64_t version, applied;
    int64_t samples, epochs, epoch, position; /* the cursor */
    int64_t n_params, n_optim, n_stats;
    double accuracy, loss;
    int32_t why,
        outcome; /* outcome: -1 goes on, else serve()'s result, without a state if why < 0 */
};

/* ---- steps ----------------------------------------------------------------------------------- */

/* The parts of a full step are the sizes themselves: known once per assignment, since a thousand
 * ranks ask at every step. */
static void note_sizes(struct lockstep *l)
{
    const struct comm *c = l->env->comm;
    sample_split(l->env->spec->batching.global_batch, l->sizes, c->workers, l->full);
    l->full_before = 0;
    for (int i = 0; i < c->rank; i++) {
        l->full_before += l->full[i];
    }
}

static int init_plan(struct plan *p, const struct rank_env *env, const struct cursor *from)
{
    size_t room = 1 + (size_t)env->ahead;
    if (env->ahead == 0) {
        return 0;
    }
    *p = (struct plan){.cut = *from,
                       .behind = calloc(room, sizeof *p->behind),
                       .wholes = calloc(room, sizeof *p->wholes),
                       .counts = calloc(room * (size_t)env->comm->workers, sizeof *p->counts),
                       .parts = calloc(room, sizeof *p->parts),
                       .room = (int)room};
    return p->behind && p->wholes && p->counts && p->parts ? 0 : -ERR_MEMORY;
}

void lockstep_init(struct lockstep *l, struct rank_env *env, const struct run_state *state)
{
    memset(l, 0, sizeof *l);
    l->env = env;
    l->cursor = state->cursor;
    l->step = state->version;
    l->applied = state->applied_samples;
    l->version = env->first_version;
    memcpy(l->sizes, env->first_sizes, sizeof l->sizes);
    note_sizes(l);
    l->counts = l->full;
    l->best =
        json_is_object(state->extra) ? json_number_value(json_object_get(state->extra, "best")) : 0;
    agenda_init(&l->agenda, env->spec, env->train_samples, l->applied, l->step,
                comm_now(env->comm));
    allreduce_init(&l->sums, env->comm, COMM_ALL, 3);
    BUG_ON(init_plan(&l->plan, env, &l->cursor) < 0);
}

void lockstep_release(struct lockstep *l)
{
    allreduce_release(&l->sums);
    free(l->plan.behind);
    free(l->plan.wholes);
    free(l->plan.counts);
    free(l->plan.parts);
}

bool lockstep_over(const struct lockstep *l)
{
    return cursor_done(&l->cursor) || l->target_reached;
}

static struct slice my_part(struct lockstep *l, const struct slice *whole, const int64_t **counts)
{
    struct slice mine = *whole;
    int rank = l->env->comm->rank;
    if (whole->count == l->env->spec->batching.global_batch) {
        *counts = l->full;
        mine.start += l->full_before;
        mine.count = l->full[rank];
        return mine;
    }
    sample_split(whole->count, l->sizes, l->env->comm->workers, l->part);
    *counts = l->part;
    for (int i = 0; i < rank; i++) {
        mine.start += l->part[i];
    }
    mine.count = l->part[rank];
    return mine;
}

/* Cuts one more step by the sizes of now; false at the run's end. */
static bool plan_step(struct lockstep *l)
{
    struct plan *p = &l->plan;
    int W = l->env->comm->workers, at = (p->first + p->n) % p->room;
    struct slice *whole = &p->wholes[at];
    const int64_t *counts;
    if (!cursor_take(&p->cut, l->env->spec->batching.global_batch, whole)) {
        return false;
    }
    p->parts[p->n] = (struct part){.slice = my_part(l, whole, &counts),
                                   .whole = whole->count,
                                   .last = whole->start + whole->count == p->cut.samples};
    memcpy(p->counts + (size_t)at * (size_t)W, counts, (size_t)W * sizeof *counts);
    p->behind[at] = p->cut;
    p->n++;
    return true;
}

/* The step that was cut first is under way from now on, and the ring is filled up behind it. */
static void take_planned(struct lockstep *l, struct work *out)
{
    struct plan *p = &l->plan;
    if (p->n > 0) {
        p->first = (p->first + 1) % p->room;
        memmove(p->parts, p->parts + 1, (size_t)--p->n * sizeof *p->parts);
    }
    while (p->n < p->room && plan_step(l)) {
    }
    l->slice = p->wholes[p->first];
    l->cursor = p->behind[p->first];
    l->counts = p->counts + (size_t)p->first * (size_t)l->env->comm->workers;
    out->slice = p->parts[0].slice;
    out->parts = p->parts;
    out->n_parts = p->n;
}

static void take_next(struct lockstep *l, struct work *out)
{
    int B = l->env->spec->batching.global_batch;
    BUG_ON(!cursor_take(&l->cursor, B, &l->slice));
    struct cursor ahead = l->cursor; /* what probably comes next, for the loader */
    struct slice next;
    if (cursor_take(&ahead, B, &next)) {
        out->hint = my_part(l, &next, &l->counts);
    }
    out->slice =
        my_part(l, &l->slice, &l->counts); /* after the hint: both may need the same room */
}

void lockstep_next(struct lockstep *l, struct work *out)
{
    int rank = l->env->comm->rank;
    if (l->plan.room > 0) {
        take_planned(l, out);
    } else {
        take_next(l, out);
    }
    out->action = DO_TRAIN;
    out->batch = l->sizes[rank] > 0 ? l->sizes[rank] : 1;
    out->learning_rate =
        jobspec_rate(&l->env->spec->optimizer, slice_epoch(&l->slice, l->env->train_samples));
    out->next_batch = l->next_version ? l->next_sizes[rank] : 0;
    if (out->batch < out->slice.count) {
        out->batch = (int)out->slice.count;
    }
}

double lockstep_share(const struct lockstep *l)
{
    return (double)l->counts[l->env->comm->rank] / (double)l->slice.count;
}

void lockstep_done(struct lockstep *l)
{
    l->step++;
    l->local_step += l->counts[l->env->comm->rank] > 0;
    l->applied += l->slice.count;
    l->evaluated_here = false;
    l->evaluate = agenda_evaluate(&l->agenda, l->applied, l->step) || l->evaluate;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

bool lockstep_test_part(const struct lockstep *l, struct work *out)
{
    const struct rank_env *env = l->env;
    double sum = 0, before = 0;
    for (int i = 0; i < env->comm->workers; i++) {
        double v = env->speeds[i] > 0 ? env->speeds[i] : 1;
        before += i < env->comm->rank ? v : 0;
        sum += v;
    }
    double mine = env->speeds[env->comm->rank] > 0 ? env->speeds[env->comm->rank] : 1;
    int64_t n = env->test_samples, a = (int64_t)((double)n * before / sum + 0.5),
            b = (int64_t)((double)n * (before + mine) / sum + 0.5);
    out->action = DO_EVALUATE;
    out->eval_first = a;
    out->eval_count = (env->comm->rank == env->comm->workers - 1 ? n : b) - a;
    out->batch = l->sizes[env->comm->rank];
    return n > 0;
}

int lockstep_evaluated(struct lockstep *l, const struct work *w, const struct dev_result *r,
                       struct err *e)
{
    struct rank_env *env = l->env;
    l->sum_words[0] = (float)r->loss;
    l->sum_words[1] = (float)r->correct;
    l->sum_words[2] = (float)w->eval_count;
    allreduce_start(&l->sums, l->sum_words, 3, 3);
    int rc = comm_wait(env->comm, &l->sums.op, e);
    if (rc < 0) {
        return rc;
    }
    double n = l->sum_words[2];
    l->evaluate = false;
    l->evaluated_here = true;
    if (!(n > 0)) {
        return 0; /* a user's program has measured nothing */
    }
    l->last_loss = l->sum_words[0] / n;
    l->last_accuracy = l->sum_words[1] / n;
    l->target_reached = l->target_reached || (env->spec->target_accuracy > 0 &&
                                              l->last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {.step = l->step,
                            .epoch = (double)l->applied / (double)env->train_samples,
                            .time = comm_now(env->comm) - env->job_start,
                            .loss = l->last_loss,
                            .accuracy = l->last_accuracy,
                            .samples = (int64_t)n,
                            .final = lockstep_over(l)};
    if (env->comm->rank == 0) {
        env->evaluated(env->ctx, &ev);
    }
    if (l->last_accuracy > l->best) {
        l->best = l->last_accuracy;
        return 1;
    }
    return 0;
}

/* ---- agreement ------------------------------------------------------------------------------- */

size_t lockstep_words(const struct lockstep *l)
{
    return WORDS + 2 * (size_t)l->env->comm->workers;
}

void lockstep_write(struct lockstep *l, float *words, double time, int64_t ahead)
{
    struct rank_env *env = l->env;
    int W = env->comm->workers, rank = env->comm->rank;
    memset(words, 0, lockstep_words(l) * sizeof(float));
    l->known = l->next_version != 0;
    words[WORD_NOT_READY] =
        l->known && l->next_sizes[rank] > 0 && !env->ready(env->ctx, l->next_sizes[rank]);
    words[WORDS + W + rank] = (float)time;
    if (rank == 0) {
        struct control control;
        memset(&control, 0, sizeof control);
        env->control(env->ctx, &control);
        words[WORD_VERSION] = (float)control.version;
        words[WORD_STOP] = control.stop;
        words[WORD_PAUSE] = control.pause;
        words[WORD_CHECKPOINT] =
            control.checkpoint ||
            agenda_checkpoint(&l->agenda, l->step + ahead, comm_now(env->comm));
        for (int i = 0; i < W; i++) {
            words[WORDS + i] = (float)control.sizes[i];
        }
    }
}

float lockstep_slowest(const struct lockstep *l, const float *words)
{
    int W = l->env->comm->workers;
    const float *times = words + WORDS + W;
    float a = 0, b = 0, c = 0, d = 0; /* four at a time: each rank of many asks at every step */
    int i = 0;
    for (; i + 4 <= W; i += 4) {
        a = times[i] > a ? times[i] : a;
        b = times[i + 1] > b ? times[i + 1] : b;
        c = times[i + 2] > c ? times[i + 2] : c;
        d = times[i + 3] > d ? times[i + 3] : d;
    }
    for (; i < W; i++) {
        a = times[i] > a ? times[i] : a;
    }
    a = a > b ? a : b;
    c = c > d ? c : d;
    return a > c ? a : c;
}

struct step_row lockstep_row(const struct lockstep *l, const struct work *w,
                             const struct dev_result *r, double compute_s, double since)
{
    const struct rank_env *env = l->env;
    double now = comm_now(env->comm), n = w->slice.count > 0 ? (double)w->slice.count : 1;
    return (struct step_row){
        .rank = env->comm->rank,
        .step = l->step,
        .local_step = l->local_step,
        .epoch = env->train_samples > 0 ? (double)l->applied / (double)env->train_samples : 0,
        .batch = (int)w->slice.count,
        .loss = r ? (float)(r->loss / n) : 0,
        .accuracy = r ? (float)((double)r->correct / n) : 0,
        .compute_s = (float)compute_s,
        .exchange_s = (float)(now - since),
        .time = now - env->job_start,
        .extra = {NAN, 0}};
}

void lockstep_agree(struct lockstep *l, const float *words)
{
    int W = l->env->comm->workers, announced = (int)words[WORD_VERSION];
    if (l->known && announced == l->next_version && words[WORD_NOT_READY] == 0) {
        l->version = l->next_version;
        memcpy(l->sizes, l->next_sizes, sizeof l->sizes);
        note_sizes(l);
        l->next_version = 0;
    } else if (announced > l->version && announced != l->next_version) {
        l->next_version = announced;
        for (int i = 0; i < W; i++) {
            l->next_sizes[i] = (int)words[WORDS + i];
        }
    }
    l->stop = words[WORD_STOP] > 0;
    l->pause = words[WORD_PAUSE] > 0;
    l->checkpoint = words[WORD_CHECKPOINT] > 0;
}

/* ---- states: rank 0 → keeper ----------------------------------------------------------------- */

static int send_block(struct lockstep *l, float *data, size_t n, struct err *e)
{
    struct message m;
    char none = 0;
    if (n == 0) {
        return 0;
    }
    message_send(&m, l->env->comm, l->env->comm->workers, TAG_STATE + 1, &none, 1, data, n);
    return comm_wait(l->env->comm, &m.op, e);
}

int lockstep_send_state(struct lockstep *l, float *optim, size_t n_optim, int why, int outcome,
                        struct err *e)
{
    struct rank_env *env = l->env;
    struct dev_replica *r = env->replica;
    if (env->comm->rank != 0) {
        return 0;
    }
    int rc = 0;
    for (int b = 0; b < DEV_BLOCKS && rc >= 0; b++) {
        rc = b == DEV_GRADS || !r->count[b]
                 ? 0
                 : r->dev->ops->fetch(r, (enum dev_block)b, 0, r->count[b], e);
    }
    if (!optim) {
        optim = r->host[DEV_OPTIM];
        n_optim = r->count[DEV_OPTIM];
    }
    struct state_head head = {.version = l->step,
                              .applied = l->applied,
                              .samples = l->cursor.samples,
                              .epochs = l->cursor.epochs,
                              .epoch = l->cursor.epoch,
                              .position = l->cursor.position,
                              .n_params = (int64_t)r->count[DEV_PARAMS],
                              .n_optim = (int64_t)n_optim,
                              .n_stats = (int64_t)r->count[DEV_STATS],
                              .accuracy = l->evaluated_here ? l->last_accuracy : -1,
                              .loss = l->last_loss,
                              .why = why,
                              .outcome = outcome};
    struct message m;
    env->aside(env->ctx, true);
    message_send(&m, env->comm, env->comm->workers, TAG_STATE, &head, sizeof head, NULL, 0);
    rc = rc < 0 ? rc : comm_wait(env->comm, &m.op, e);
    if (why >= 0) {
        rc = rc < 0 ? rc : send_block(l, r->host[DEV_PARAMS], r->count[DEV_PARAMS], e);
        rc = rc < 0 ? rc : send_block(l, optim, n_optim, e);
        rc = rc < 0 ? rc : send_block(l, r->host[DEV_STATS], r->count[DEV_STATS], e);
    }
    env->aside(env->ctx, false);
    return rc;
}

int lockstep_finish(struct lockstep *l, float *optim, size_t n_optim, struct err *e)
{
    if (l->stop || l->pause) {
        return lockstep_send_state(l, optim, n_optim,
                                   l->stop ? (int)SAVE_CHECKPOINT : (int)SAVE_PAUSE,
                                   l->stop ? 2 : 1, e);
    }
    return lockstep_send_state(l, optim, n_optim, SAVE_FINAL, 0, e);
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
        return err_set(e, ERR_MEMORY, "cannot hold a state of %lld floats: memory ran out",
                       (long long)n);
    }
    message_recv(&m, env->comm, 0, TAG_STATE + 1, &none, 1, *block, (size_t)n);
    return comm_wait(env->comm, &m.op, e);
}

int lockstep_serve(struct rank_env *env, const struct run_state *from, struct err *e)
{
    float *params = NULL, *optim = NULL, *stats = NULL;
    struct state_head head = {.outcome = -1};
    struct run_state *state = calloc(1, sizeof *state);
    json_t *extra = json_object();
    double deadline = env->comm->deadline,
           best = json_is_object(from->extra)
                      ? json_number_value(json_object_get(from->extra, "best"))
                      : 0;
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
        *state =
            (struct run_state){.params = params,
                               .optim = optim,
                               .stats = stats,
                               .n_params = (size_t)head.n_params,
                               .n_optim = (size_t)head.n_optim,
                               .n_stats = (size_t)head.n_stats,
                               .version = head.version,
                               .applied_samples = head.applied,
                               .cursor = {head.samples, head.epochs, head.epoch, head.position},
                               .extra = extra,
                               .test_accuracy = head.accuracy,
                               .test_loss = head.loss};
        state->why = head.why == SAVE_FINAL   ? SAVE_FINAL
                     : head.why == SAVE_BEST  ? SAVE_BEST
                     : head.why == SAVE_PAUSE ? SAVE_PAUSE
                                              : SAVE_CHECKPOINT;
        rc = env->save ? env->save(env->ctx, state, e) : 0;
    }
    env->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(env->comm); /* a block may still be coming */
    }
    json_decref(extra);
    free(params);
    free(optim);
    free(stats);
    free(state);
    return rc < 0 ? rc : head.outcome;
}

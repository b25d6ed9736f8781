/* Steps in common, each rank's part of them, and evaluation: see lockstep.h. */
#include "worker/exchange/lockstep/steps/lockstep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "worker/exchange/lockstep/survival/absence.h"

/* ---- steps ----------------------------------------------------------------------------------- */

/* The parts of a full step are the sizes themselves. They are computed once per assignment, since a
 * thousand ranks ask at every step. */
void lockstep_adopt(struct lockstep *l, int version, const int *sizes)
{
    const struct comm *c = l->env->comm;
    l->version = version;
    memcpy(l->sizes, sizes, sizeof l->sizes);
    sample_split(l->env->spec->batching.global_batch, l->sizes, c->workers, l->full);
    l->full_before = 0;
    for (int i = 0; i < c->rank; i++) {
        l->full_before += l->full[i];
    }
}

void lockstep_init(struct lockstep *l, struct rank_env *env, const struct run_state *state)
{
    memset(l, 0, sizeof *l);
    l->env = env;
    l->at.cursor = state->cursor;
    l->at.first = l->at.step = state->version;
    l->at.applied = state->applied_samples;
    lockstep_adopt(l, env->first_version, env->first_sizes);
    l->counts = l->full;
    l->best = state->best;
    agenda_init(&l->at.agenda, env->spec, env->train_samples, l->at.applied, l->at.step,
                comm_now(env->comm));
    size_t most = sizeof l->sum_words / sizeof *l->sum_words, each = (size_t)env->comm->workers;
    allreduce_init(&l->sums, env->comm, COMM_ALL, each > most ? each : most);
    BUG_ON(advance_init(l) < 0);
}

void lockstep_release(struct lockstep *l)
{
    allreduce_release(&l->sums);
    advance_release(l);
}

bool lockstep_leaves(const struct lockstep *l, struct work *out)
{
    if (l->at.stop || l->at.pause) {
        out->action = l->at.stop ? DO_STOP : DO_PAUSE;
    }
    return l->at.stop || l->at.pause;
}

bool lockstep_over(const struct lockstep *l)
{
    return cursor_done(&l->at.cursor) || l->at.target_reached || l->at.left;
}

bool lockstep_may_end(const struct lockstep *l)
{
    return l->env->open && l->at.cursor.position == 0;
}

struct slice lockstep_part(struct lockstep *l, const struct slice *whole, const int64_t **counts)
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

static void take_next(struct lockstep *l, struct work *out)
{
    int B = l->env->spec->batching.global_batch;
    l->before = l->at.cursor;
    BUG_ON(!cursor_take(&l->at.cursor, B, &l->slice));
    struct cursor ahead = l->at.cursor; /* the probable next slice, for the loader */
    struct slice next;
    if (cursor_take(&ahead, B, &next)) {
        out->hint = lockstep_part(l, &next, &l->counts);
    }
    out->slice =
        lockstep_part(l, &l->slice, &l->counts); /* after the hint: both may need the same room */
}

static bool is_sure(const struct lockstep *l)
{
    return l->env->wants_sure && !l->asked && !cursor_done(&l->at.cursor) && !lockstep_may_end(l) &&
           !agenda_is_due(&l->at.agenda, l->at.applied + l->slice.count, l->at.step + 1, l->began);
}

void lockstep_train(struct lockstep *l, struct work *out)
{
    int rank = l->env->comm->rank;
    if (lockstep_over(l)) {
        out->action = DO_END;
        return;
    }
    l->began = comm_now(l->env->comm);
    if (l->advance.room > 0) {
        advance_take(l, out);
    } else {
        take_next(l, out);
    }
    l->under_way = true;
    out->action = DO_TRAIN;
    out->sure = l->sure = is_sure(l);
    out->weight = (double)out->slice.count;
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
    l->at.step++;
    l->under_way = false;
    l->done_count = l->slice.count;
    l->done_share = lockstep_share(l);
    l->at.local_step += l->counts[l->env->comm->rank] > 0;
    l->at.applied += l->slice.count;
    l->at.evaluated_here = false;
    l->at.evaluate = agenda_evaluate(&l->at.agenda, l->at.applied, l->at.step) || l->at.evaluate;
}

void lockstep_undo(struct lockstep *l)
{
    BUG_ON(l->advance.room > 0);
    l->at.cursor = l->under_way ? l->before : l->at.cursor;
    l->under_way = false;
}

void lockstep_stand(const struct lockstep *l, struct lockstep_mark *out)
{
    *out = l->at;
    out->cursor = l->under_way ? l->before : l->at.cursor;
}

void lockstep_stand_at(struct lockstep *l, const struct lockstep_mark *of, int64_t local_step)
{
    l->at = *of;
    l->under_way = false;
    l->at.agenda.spec = l->env->spec; /* that was another process's */
    l->at.local_step = local_step;
}

void lockstep_return(struct lockstep *l, const struct lockstep_mark *to)
{
    BUG_ON(l->advance.room > 0);
    l->at = *to;
    l->under_way = false;
}

bool lockstep_is_first(const struct lockstep *l)
{
    return l->env->comm->place[COMM_ALL] == 0;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* By speed. */
static void test_part(const struct lockstep *l, struct work *out)
{
    const struct rank_env *env = l->env;
    const int *members = env->comm->members[COMM_ALL];
    int n_members = env->comm->n_members[COMM_ALL];
    double sum = 0, before = 0;
    for (int i = 0; i < n_members; i++) {
        double v = env->speeds[members[i]] > 0 ? env->speeds[members[i]] : 1;
        before += members[i] < env->comm->rank ? v : 0;
        sum += v;
    }
    double mine = env->speeds[env->comm->rank] > 0 ? env->speeds[env->comm->rank] : 1;
    int64_t n = env->test_samples, a = (int64_t)((double)n * before / sum + 0.5),
            b = (int64_t)((double)n * (before + mine) / sum + 0.5);
    out->action = DO_EVALUATE;
    out->eval_first = a;
    out->eval_count = (env->comm->place[COMM_ALL] == n_members - 1 ? n : b) - a;
    out->batch = l->sizes[env->comm->rank];
}

bool lockstep_evaluates(const struct lockstep *l, struct work *out)
{
    bool due = l->at.evaluate || (lockstep_over(l) && !l->at.evaluated_here);
    if (!due || l->env->test_samples <= 0) {
        return false;
    }
    test_part(l, out);
    return true;
}

int lockstep_say_left(const struct lockstep *l, const struct left *left, const char *when,
                      int64_t number, const char *what, struct err *e)
{
    char who[48];
    if (left->n == 1) {
        snprintf(who, sizeof(who), "the program of rank %d has", (int)left->who - 1);
    } else {
        snprintf(who, sizeof(who), "%d programs have", left->n);
    }
    err_set(e, left->mine ? ERR_PEER : ERR_CANCELLED,
            "%s left %s %lld and %d go%s on: the loops of all ranks make the same number of %s",
            who, when, (long long)number, left->there, left->there == 1 ? "es" : "", what);
    if (strcmp(what, "steps") == 0) {
        err_hint(e,
                 "a program that was started again counts its own steps from 0: `for step in "
                 "evenstep.steps(n)` has the run's count");
    }
    if (left->mine && l->env->parted) {
        l->env->parted(l->env->ctx, e);
    }
    return -(int)e->code;
}

void lockstep_tell_anew(const struct lockstep *l)
{
    log_warn("sync",
             "the run ends where the other programs have left: this one was started again, and "
             "steps that it counts itself began anew",
             "step=%lld", (long long)l->at.step);
}

/* Programs that are open go on, or all leave; of one that has ended meanwhile nobody knows. */
static int agree_to_leave(struct lockstep *l, const struct dev_result *mine, struct err *e)
{
    const struct left left = {(int)l->sum_words[3], (int)l->sum_words[4], l->sum_words[5],
                              mine->leaves};
    if (l->at.left) { /* before the step that is left out */
        return 0;
    }
    if (left.n > 0 && left.there > 0) {
        return lockstep_say_left(l, &left, "after epoch", l->at.cursor.epoch, "epochs", e);
    }
    if (left.n > 0 && mine->anew && !mine->leaves) {
        lockstep_tell_anew(l);
    }
    l->at.left = left.n > 0;
    return 0;
}

bool lockstep_has_copies(const struct lockstep *l)
{
    return l->env->marks > 0 && l->env->comm->workers > 1;
}

int lockstep_passes_differ(struct err *e)
{
    err_hint(e,
             "each node's program makes the same number of backward passes in a step: parts of a "
             "batch are more on one node than on another where their size is fixed (x.split(n)), "
             "and not where their number is (x.chunk(k)), but for fewer samples than that");
    return -ERR_DATA;
}

int lockstep_sum_failed(const struct lockstep *l, int rc, struct err *e)
{
    if (rc != -ERR_CONFLICT || !l->env->weighed) {
        return rc;
    }
    err_set(e, ERR_DATA,
            "the program of rank %d has made step %lld, and that of another node made one more "
            "backward pass, or is elsewhere",
            l->env->comm->rank, (long long)l->at.step);
    return lockstep_passes_differ(e);
}

int lockstep_sum(struct lockstep *l, float *floats, size_t n, struct err *e)
{
    struct comm *c = l->env->comm;
    allreduce_start(&l->sums, floats, n, n);
    c->watches = true;
    int rc = comm_wait(c, &l->sums.op, e);
    c->watches = false;
    return lockstep_sum_failed(l, rc, e);
}

int lockstep_any(struct lockstep *l, bool mine, struct err *e)
{
    l->sum_words[0] = mine;
    int rc = lockstep_sum(l, l->sum_words, 1, e);
    return rc < 0 ? rc : l->sum_words[0] > 0;
}

/* What was evaluated may be the best so far, which the first rank saves: its program must not be
 * the one that has ended. */
static int provide(struct lockstep *l, struct err *e)
{
    struct own_state own = {0};
    int n = l->env->comm->n_members[COMM_ALL];
    float there = l->sum_words[3] + l->sum_words[4] + l->sum_words[6];
    int rc = (float)n > there ? absence_provide(l, &own, e) : 0;
    own_state_release(&own);
    return rc;
}

int lockstep_evaluated(struct lockstep *l, const struct work *w, const struct dev_result *r,
                       struct err *e)
{
    struct rank_env *env = l->env;
    l->sum_words[0] = (float)r->loss;
    l->sum_words[1] = (float)r->correct;
    l->sum_words[2] = (float)w->eval_count;
    bool copies = lockstep_has_copies(l), there = !r->leaves && !r->absent,
         anew = there && copies && r->anew;
    l->sum_words[3] = r->leaves;
    l->sum_words[4] = there && !anew;
    l->sum_words[5] = (float)(r->leaves ? env->comm->rank + 1 : 0);
    l->sum_words[6] = anew;
    int rc = lockstep_sum(l, l->sum_words, env->open || copies ? 7 : 3, e);
    if (rc < 0 || (copies && (rc = provide(l, e)) < 0) ||
        (env->open && (rc = agree_to_leave(l, r, e)) < 0)) {
        return rc;
    }
    double n = l->sum_words[2];
    return lockstep_take_evaluation(l, l->sum_words[0] / n, strategy_accuracy(l->sum_words[1], n),
                                    (int64_t)n, e);
}

int lockstep_take_evaluation(struct lockstep *l, double loss, double accuracy, int64_t samples,
                             struct err *e)
{
    struct rank_env *env = l->env;
    l->at.evaluate = false;
    l->at.evaluated_here = true;
    l->at.last_samples = samples;
    if (samples <= 0) {
        return 0; /* a user's program has measured nothing */
    }
    l->at.last_loss = loss;
    l->at.last_accuracy = accuracy;
    l->at.target_reached =
        l->at.target_reached ||
        (env->spec->target_accuracy > 0 && l->at.last_accuracy >= env->spec->target_accuracy);
    struct evaluation ev = {.step = l->at.step,
                            .epoch = (double)l->at.applied / (double)env->train_samples,
                            .time = comm_now(env->comm) - env->job_start,
                            .loss = l->at.last_loss,
                            .accuracy = l->at.last_accuracy,
                            .samples = samples,
                            .final = lockstep_over(l)};
    if (lockstep_is_first(l)) {
        env->evaluated(env->ctx, &ev);
    }
    double score = strategy_score(l->at.last_accuracy, l->at.last_loss);
    if (score > l->best) {
        l->best = score;
        return lockstep_send_state(l, NULL, 0, SAVE_BEST, RUN_GOES_ON, e);
    }
    return 0;
}

struct row lockstep_row(const struct lockstep *l, const struct work *w, const struct dev_result *r,
                        double compute_s, double since)
{
    const struct rank_env *env = l->env;
    double now = comm_now(env->comm), n = w->slice.count > 0 ? (double)w->slice.count : 1;
    struct row row = row_blank();
    row.rank = (int16_t)env->comm->rank;
    row.step = l->at.step;
    row.local_step = l->at.local_step;
    row.epoch = env->train_samples > 0 ? (double)l->at.applied / (double)env->train_samples : 0;
    row.batch = (int)w->slice.count;
    row.loss = r ? (float)(r->loss / n) : 0;
    row.accuracy = r ? (float)strategy_accuracy((double)r->correct, n) : 0;
    row.compute_seconds = (float)compute_s;
    row.exchange_seconds = (float)(now - since);
    row.time = now - env->job_start;
    return row;
}

void lockstep_warn_of_few(const struct lockstep *l, int64_t rounds, int64_t steps)
{
    int64_t every = agenda_shortest(&l->at.agenda, l->env->spec->batching.global_batch),
            planned = steps / every;
    if (lockstep_is_first(l) && !l->at.stop && !l->at.pause && rounds < planned) {
        log_warn("exchange", "the job ends with fewer synchronisations than its plan",
                 "rounds=%lld planned=%lld steps=%lld", (long long)rounds, (long long)planned,
                 (long long)steps);
    }
}

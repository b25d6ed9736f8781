/* Steps in common: see lockstep.h. */
#include "worker/exchange/lockstep/steps/lockstep.h"

#include <string.h>

#include "common/log.h"

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

/* May the run end where the cursor stands? */
static bool may_end_at(const struct lockstep *l, const struct cursor *at)
{
    return l->env->program.open && at->position == 0;
}

bool lockstep_may_end(const struct lockstep *l)
{
    return may_end_at(l, &l->at.cursor);
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

/* Does another step, and nothing else, follow step `step`? After it the cursor is `after`, and
 * `applied` samples are counted. */
static bool is_followed(const struct lockstep *l, const struct cursor *after, int64_t applied,
                        int64_t step)
{
    return !cursor_done(after) && !may_end_at(l, after) &&
           !agenda_is_due(&l->at.agenda, applied, step + 1, l->began);
}

/* How many steps are sure, from the current one on. A step that was sure stays so: what is asked or
 * becomes due meanwhile waits. */
static int sure_steps(struct lockstep *l)
{
    const struct advance *a = &l->advance;
    int64_t applied = l->at.applied;
    bool more = l->env->program.wants_sure && !l->asked;
    for (int i = 0; more && i < a->n; i++) {
        int64_t step = l->at.step + i;
        int at = (a->first + i) % a->room;
        applied += a->wholes[at].count;
        more = step < l->sure || is_followed(l, &a->behind[at], applied, step);
        l->sure = more && step >= l->sure ? step + 1 : l->sure;
    }
    return l->sure > l->at.step ? (int)(l->sure - l->at.step) : 0;
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
    out->sure = sure_steps(l);
    out->weight = (double)out->slice.count;
    out->batch = l->sizes[rank] > 0 ? l->sizes[rank] : 1;
    out->learning_rate =
        jobspec_rate(&l->env->spec->optimizer, slice_epoch(&l->slice, l->env->train_samples));
    out->next_batch = l->next_version ? l->next_sizes[rank] : 0;
    if (out->batch < out->slice.count) {
        out->batch = (int)out->slice.count;
    }
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
    l->at.agenda.spec = l->env->spec; /* the copied pointer was another process's */
    l->at.local_step = local_step;
}

void lockstep_return(struct lockstep *l, const struct lockstep_mark *to)
{
    BUG_ON(l->advance.room > 0);
    l->at = *to;
    l->under_way = false;
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

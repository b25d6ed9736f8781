/* Steps that are cut in advance, since a user's program reads its samples ahead (program.ahead): a
 * ring of them, whose samples do not change with later assignments. A worker that is lost takes no
 * part in those either (docs/decisions/0029):
 *
 *      step under way   s + 1 … s + ahead           next to be cut
 *      [0 | 1 | †]     [0 | 1 | †] … [0 | 1 | †]    † … †, and what comes after
 *
 * See lockstep.h. */
#include "worker/exchange/lockstep/steps/lockstep.h"

#include <stdlib.h>
#include <string.h>

int advance_init(struct lockstep *l)
{
    const struct rank_env *env = l->env;
    const struct cursor *from = &l->at.cursor;
    struct advance *a = &l->advance;
    size_t room = 1 + (size_t)env->program.ahead;
    int64_t B = env->spec->batching.global_batch;
    if (env->program.ahead == 0) {
        return 0;
    }
    *a = (struct advance){.cut = *from,
                          .samples = from->samples,
                          .steps = (from->position + B - 1) / B,
                          .behind = calloc(room, sizeof *a->behind),
                          .wholes = calloc(room, sizeof *a->wholes),
                          .counts = calloc(room * (size_t)env->comm->workers, sizeof *a->counts),
                          .starts = calloc(room * (size_t)env->comm->workers, sizeof *a->starts),
                          .parts = calloc(room, sizeof *a->parts),
                          .room = (int)room};
    return a->behind && a->wholes && a->counts && a->starts && a->parts ? 0 : -ERR_MEMORY;
}

void advance_release(struct lockstep *l)
{
    struct advance *a = &l->advance;
    free(a->behind);
    free(a->wholes);
    free(a->counts);
    free(a->starts);
    free(a->parts);
    leftovers_release(&a->left);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Begins an epoch, after what lost workers left in the last one was handed out. */
static void begin_epoch(struct advance *a)
{
    if (a->cut.position == 0) {
        a->cut.samples = a->samples;
        a->steps = 0;
    }
}

/* How many samples the next step has. What lost workers left goes into the epoch's later steps,
 * each a little larger, so that the epoch has as many steps as its loops expect. If the steps would
 * grow by too much, or beyond the global batch on one worker, the epoch has further steps. */
static int64_t step_size(const struct lockstep *l)
{
    const struct advance *a = &l->advance;
    int64_t B = l->env->spec->batching.global_batch, most = B + B / 4, largest = 1;
    int64_t steps = (a->samples + B - 1) / B - a->steps, left = a->cut.samples - a->cut.position;
    for (int i = 0; i < l->env->comm->workers; i++) {
        largest = l->sizes[i] > largest ? l->sizes[i] : largest;
    }
    most = B * B / largest < most ? B * B / largest : most;
    int64_t even = steps > 0 ? (left + steps - 1) / steps : most + 1;
    return a->cut.samples == a->samples || even < B || even > most ? B : even;
}

static void note_counts(struct advance *a, int step, int workers, const int64_t *counts)
{
    int64_t *starts = a->starts + (size_t)step * (size_t)workers, at = a->wholes[step].start;
    memcpy(a->counts + (size_t)step * (size_t)workers, counts, (size_t)workers * sizeof *counts);
    for (int i = 0; i < workers; i++) {
        starts[i] = at;
        at += counts[i];
    }
}

/* Cuts one more step by the current sizes; false at the run's end. */
static bool cut_step(struct lockstep *l)
{
    struct advance *a = &l->advance;
    int W = l->env->comm->workers, at = (a->first + a->n) % a->room;
    struct slice *whole = &a->wholes[at];
    const int64_t *counts;
    if (!cursor_take(&a->cut, step_size(l), whole)) {
        return false;
    }
    struct slice own = lockstep_part(l, whole, &counts);
    a->parts[a->n] = (struct part){.slice = own,
                                   .whole = whole->count,
                                   .nth = a->steps++,
                                   .before = own.start - whole->start,
                                   .last = whole->start + whole->count == a->cut.samples,
                                   .left = &a->left};
    note_counts(a, at, W, counts);
    begin_epoch(a);
    a->behind[at] = a->cut;
    a->n++;
    return true;
}

/* Makes the step after the last taken one the first, and fills the ring up. */
static void move_on(struct lockstep *l)
{
    struct advance *a = &l->advance;
    if (a->n > 0 && !a->fresh) {
        a->first = (a->first + 1) % a->room;
        memmove(a->parts, a->parts + 1, (size_t)--a->n * sizeof *a->parts);
    }
    while (a->n < a->room && cut_step(l)) {
    }
    a->fresh = true;
}

/* Begins the step that was cut first. */
void advance_take(struct lockstep *l, struct work *out)
{
    struct advance *a = &l->advance;
    move_on(l);
    a->fresh = false;
    l->before = l->at.cursor;
    l->slice = a->wholes[a->first];
    l->at.cursor = a->behind[a->first];
    l->counts = a->counts + (size_t)a->first * (size_t)l->env->comm->workers;
    out->slice = a->parts[0].slice;
    out->parts = a->parts;
    out->n_parts = a->n;
}

/* ---- workers that are lost ------------------------------------------------------------------- */

/* Takes the parts of a lost worker out of all steps that were cut, and writes them to left[room].
 * Returns how many slices. */
static int take_parts(struct lockstep *l, int lost, struct slice *left)
{
    struct advance *a = &l->advance;
    int taken = 0;
    for (int i = 0; i < a->n; i++) {
        int step = (a->first + i) % a->room;
        size_t at = (size_t)step * (size_t)l->env->comm->workers + (size_t)lost;
        if (a->counts[at] > 0) {
            left[taken++] = (struct slice){a->wholes[step].epoch, a->starts[at], a->counts[at]};
            a->wholes[step].count -= a->counts[at];
            a->counts[at] = 0;
        }
        a->parts[i].whole = a->wholes[step].count;
    }
    return taken;
}

/* Checks that steps follow in which lost samples can come again. From the steps that were cut
 * programs know the end of the run. Where they may leave at the end of an epoch (program.open),
 * nobody knows whether another one comes. */
static int check_room(const struct lockstep *l, const struct slice *left, int n, struct err *e)
{
    const struct cursor *cut = &l->advance.cut;
    for (int i = 0; i < n; i++) {
        if (cursor_done(cut) || (l->env->program.open && left[i].epoch != cut->epoch)) {
            return err_set(e, ERR_PEER,
                           "a worker was lost in the last steps of epoch %lld, whose end the "
                           "programs know: its samples cannot come again",
                           (long long)left[i].epoch);
        }
    }
    return 0;
}

/* Does no step follow? A run that has made all its steps may have more, if some of them no longer
 * count. */
static bool is_last(const struct lockstep *l, int n_done)
{
    bool missing = n_done > 0 && cursor_done(&l->at.cursor);
    return !l->under_way && !missing && (l->at.stop || l->at.pause || lockstep_over(l));
}

/* The epoch gets these samples once more, where the next step is cut. */
static int hand_out_again(struct lockstep *l, const struct slice *left, int n, struct err *e)
{
    struct advance *a = &l->advance;
    int rc = check_room(l, left, n, e);
    if (n == 0 || rc < 0 ||
        (rc = leftovers_add(&a->left, left, n, a->cut.epoch, a->cut.position, e)) < 0) {
        return rc;
    }
    a->cut.samples += a->left.all[a->left.n - 1].count;
    return 0;
}

/* One worker after the other, since some ranks hear of two losses at once, and others of each. */
int lockstep_lose(struct lockstep *l, const int *lost, int n, const struct slice *done, int n_done,
                  struct err *e)
{
    struct advance *a = &l->advance;
    if (is_last(l, n_done)) {
        return 0;
    }
    struct slice *left = calloc((size_t)a->room + 1, sizeof *left);
    if (!left) {
        return err_set(e, ERR_MEMORY, "cannot take a lost worker's slices: memory ran out");
    }
    if (!l->under_way) {
        move_on(l); /* as the ranks have done that began the step */
    }
    int rc = hand_out_again(l, done, n_done, e);
    for (int i = 0; i < n && rc >= 0; i++) {
        rc = hand_out_again(l, left, take_parts(l, lost[i], left), e);
    }
    free(left);
    l->slice = l->under_way ? a->wholes[a->first] : l->slice;
    return rc;
}

bool lockstep_place(const struct lockstep *l, struct cursor *out)
{
    *out = l->at.cursor;
    return l->advance.room == 0 ||
           leftovers_settle(&l->advance.left, &l->at.cursor, l->advance.samples, out);
}

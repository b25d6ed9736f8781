/* See ranks.h. */
#include "coordinator/monitor/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "job/documents/ranks/fact.h"
#include "job/node/device_kind.h"

enum { EVENT_POINTS = 32, COLD_STEPS = 5 /* as step_deadline() counts them */ };

/* ---- from the plan --------------------------------------------------------------------------- */

static void open_worker(struct rank *w, const struct plan_worker *from, int batch)
{
    snprintf(w->node, sizeof w->node, "%s", from->node);
    snprintf(w->device, sizeof w->device, "%s", from->device);
    w->slowdown = from->slowdown;
    w->tuning = json_incref(from->tuning);
    w->batch = batch;
}

int ranks_open(struct ranks *r, const struct plan *plan, struct seals *seals, struct err *e)
{
    memset(r, 0, sizeof *r);
    r->ours = plan->from;
    r->seals = seals;
    r->all = calloc((size_t)(plan->n_workers + plan->servers) + 1, sizeof *r->all);
    r->names = calloc((size_t)plan->n_workers + 1, sizeof *r->names);
    r->left = calloc((size_t)plan->n_workers + 1, sizeof *r->left);
    if (!r->all || !r->names || !r->left || plan->n_workers < 1 ||
        !recent_init(&r->recent, plan->n_workers)) {
        return err_set(e, ERR_MEMORY, "cannot open the monitor of job '%s': memory ran out",
                       plan->from.job);
    }
    r->workers = plan->n_workers;
    r->servers = plan->servers;
    for (int i = 0; i < ranks_count(r); i++) {
        struct rank *w = &r->all[i];
        w->slowdown = 1;
        w->last_step = -1;
        thin_reset(&w->points, EVENT_POINTS / r->workers > 0 ? EVENT_POINTS / r->workers : 1);
        if (i < r->workers) {
            open_worker(w, &plan->workers[i], plan->first_sizes[i]);
            r->names[i] = w->node;
        } else {
            snprintf(w->node, sizeof w->node, "%s", i == r->workers ? "keeper" : "server");
        }
    }
    return 0;
}

void ranks_close(struct ranks *r)
{
    for (int i = 0; i < ranks_count(r); i++) {
        json_decref(r->all[i].tuning);
        beat_release(&r->all[i].beat);
    }
    for (int i = 0; i < r->n_left; i++) {
        departure_release(&r->left[i]);
    }
    recent_release(&r->recent);
    free(r->left);
    free(r->all);
    free(r->names);
    memset(r, 0, sizeof *r);
}

int ranks_count(const struct ranks *r)
{
    return r->workers + r->servers;
}

/* ---- what they tell -------------------------------------------------------------------------- */

void ranks_drop(struct ranks *r, enum dropped kind, const struct sender *from, const char *why)
{
    static const char *const names[DROPPED_KINDS] = {"fact", "heartbeat", "rows"};
    char quoted[600];
    int64_t times = ++r->dropped[kind];
    if ((times & (times - 1)) == 0) {
        log_warn("monitor", "a report is dropped",
                 "job=%s attempt=%d what=%s from_attempt=%d from_rank=%d times=%lld why=%s",
                 r->ours.job, r->ours.attempt, names[kind], from->attempt, from->rank,
                 (long long)times, log_quote(quoted, sizeof quoted, why));
    }
}

/* The first steps of a process are longer than those that follow. Which row is a worker's first is
 * known where this coordinator has read the attempt from its beginning. */
static void note_cold(struct ranks *r, struct rank *w, const struct row *row)
{
    w->cold = w->rows == 0 ? w->last_local == 0 : w->cold && w->rows < COLD_STEPS;
    double seconds = w->cold && row->batch > 0 ? row_step_seconds(row) : 0;
    r->coldest = seconds > r->coldest ? seconds : r->coldest;
}

bool ranks_see_row(struct ranks *r, const struct row *row)
{
    struct rank *w = &r->all[row->rank];
    if (row->step <= w->last_step && row->local_step <= w->last_local) {
        return false; /* the row is read again, because the disk had refused another row of the same
                         read */
    }
    note_cold(r, w, row);
    w->last_step = row->step;
    w->last_local = row->local_step;
    recent_add(&r->recent, row);
    r->step = row->step > r->step ? row->step : r->step;
    r->epoch = row->epoch > r->epoch ? row->epoch : r->epoch;
    w->rows++;
    w->batch = row->batch;
    thin_add(&w->points, row);
    if (row->batch > 0) {
        step_times_add(&w->times, row);
    }
    return true;
}

static void take_beat(struct ranks *r, struct rank *w, const struct beat *fresh)
{
    beat_release(&w->beat);
    w->beat = *fresh;
    w->heard = true;
    r->step = fresh->step > r->step ? fresh->step : r->step;
    r->epoch = fresh->epoch > r->epoch ? fresh->epoch : r->epoch;
}

/* Counts a heartbeat that is dropped. It stays in the store until the rank writes the next one, and
 * is counted once. */
static void drop_beat(struct ranks *r, struct rank *w, const struct beat *beat, const char *why)
{
    if (beat->at == 0 || beat->at != w->stray_at) {
        w->stray_at = beat->at;
        ranks_drop(r, DROPPED_BEAT, &beat->from, why);
    }
}

/* Opens the heartbeat that the store has for this rank, with the rank's key. */
static int open_beat(struct ranks *r, int rank, const json_t *claimed, struct beat *out,
                     struct err *why)
{
    const struct sign_key *key = seals_of(r->seals, r->ours.attempt, rank);
    if (!key) {
        memset(out, 0, sizeof *out);
        return err_set(why, ERR_NOT_FOUND, "this rank has no key");
    }
    int rc = beat_open(out, claimed, key, why);
    if (rc >= 0 && (!sender_is(&out->from, &r->ours) || out->from.rank != rank)) {
        rc = err_set(why, ERR_CONFLICT, "it is of another attempt");
    }
    return rc;
}

/* Takes a heartbeat, unless it is older than the last one: somebody may have put it back. The same
 * heartbeat written again keeps its first time. */
static void see_beat(struct ranks *r, int rank, const json_t *j)
{
    struct beat fresh;
    struct err why = {0};
    struct rank *w = &r->all[rank];
    if (w->left) {
        return; /* the server has the exact counters */
    }
    int rc = open_beat(r, rank, j, &fresh, &why);
    if (rc >= 0 && w->seats > 0 && fresh.number <= fact_number_last(w->seats - 1)) {
        beat_release(&fresh); /* it is the last process's, and stays in the store until the next one
                                 comes */
        return;
    }
    if (rc >= 0 && w->heard && fresh.number < w->beat.number) {
        rc = err_set(&why, ERR_CONFLICT, "a newer one came before");
    }
    if (rc < 0) {
        fresh.at = beat_came(j);
        drop_beat(r, w, &fresh, why.message);
        beat_release(&fresh);
        return;
    }
    if (w->heard && fresh.number == w->beat.number) {
        fresh.age += (double)(fresh.at - w->beat.at) / 1000;
        fresh.at = w->beat.at;
    }
    take_beat(r, w, &fresh);
}

int ranks_read_beats(struct ranks *r, struct store *store, struct err *e)
{
    json_t *beats = store_beats(store, r->ours.job, ranks_count(r), e), *j;
    const char *key;
    if (!beats) {
        return -(e && e->code ? (int)e->code : ERR_UNAVAILABLE);
    }
    json_object_foreach(beats, key, j) {
        char *end;
        long rank = strtol(key, &end, 10);
        if (!*end && rank >= 0 && rank < ranks_count(r)) {
            see_beat(r, (int)rank, j);
        }
    }
    json_decref(beats);
    return 0;
}

/* ---- who is left ----------------------------------------------------------------------------- */

void ranks_note(const struct ranks *r, struct bookmark *out)
{
    for (int i = 0; i < ranks_count(r) && i < out->ranks; i++) {
        out->steps[i] = r->all[i].last_local;
        out->gone[i] = r->all[i].rows_gone;
    }
}

void ranks_resume(struct ranks *r, const struct bookmark *from)
{
    for (int i = 0; i < ranks_count(r) && i < from->ranks; i++) {
        r->all[i].last_local = from->steps[i];
        r->all[i].rows_gone = from->gone[i];
    }
}

bool ranks_leave(struct ranks *r, struct departure *left)
{
    if (left->who >= r->workers || r->all[left->who].left) {
        return false;
    }
    struct rank *w = &r->all[left->who];
    struct departure *kept = &r->left[r->n_left++];
    *kept = *left;
    *left = (struct departure){0};
    w->lost = w->left = true;
    staleness_release(&w->beat.staleness);
    json_t *dump = staleness_dump(&kept->staleness);
    staleness_read(&w->beat.staleness, dump); /* a copy */
    json_decref(dump);
    w->beat.samples = (int64_t)kept->staleness.samples;
    w->beat.updates = kept->staleness.count;
    w->times.per_second = 0;
    return true;
}

/* How many rows the last process of a rank had not sent, if the server took `pushes` gradients of
 * it. */
static int64_t rows_missing(const struct rank *w, int64_t pushes)
{
    int64_t missing = w->last_local >= 0 ? pushes - w->last_local : 0;
    return missing > 0 ? missing : 0;
}

/* Resets what the rank reports; its next heartbeat says it again. */
static void begin_again(struct rank *w)
{
    w->lost = w->left = w->joining = false;
    w->how[0] = w->fell_early ? w->how[0] : 0;
    w->fallen = w->fell_early;
    w->fell_early = false;
    w->heard = true;
    w->beat.age = w->beat.progress_age = w->beat.work_age = w->beat.comm_age = 0;
    w->beat.phase = PHASE_EXCHANGE;
    w->warm_at = w->rows + COLD_STEPS;
}

bool ranks_return(struct ranks *r, const struct departure *back)
{
    if (back->who >= r->workers || !r->all[back->who].left) {
        return false;
    }
    struct rank *w = &r->all[back->who];
    int n = 0;
    for (int i = 0; i < r->n_left; i++) {
        if (r->left[i].who == back->who) {
            w->rows_gone += rows_missing(w, r->left[i].pushes);
            departure_release(&r->left[i]);
        } else {
            r->left[n++] = r->left[i];
        }
    }
    r->n_left = n;
    w->last_local = back->pushes > w->last_local ? back->pushes : w->last_local;
    begin_again(w);
    return true;
}

bool ranks_ever_left(const struct ranks *r)
{
    for (int i = 0; i < r->workers; i++) {
        if (r->all[i].lost || r->all[i].seats > 0) {
            return true;
        }
    }
    return false;
}

/* Is the rank past the start? Once all have met, workers prepare and the keeper serves. */
static bool has_met(const struct ranks *r, int rank)
{
    const struct rank *w = &r->all[rank];
    return w->lost || w->fallen || w->rows > 0 || (w->heard && w->beat.phase != PHASE_LOAD);
}

static bool is_past_start(const struct ranks *r, int rank)
{
    const struct rank *w = &r->all[rank];
    return has_met(r, rank) && (rank >= r->workers || w->lost || w->fallen || w->rows > 0 ||
                                w->beat.phase != PHASE_PREPARE);
}

static bool are_all(const struct ranks *r, bool (*so)(const struct ranks *r, int rank))
{
    for (int i = 0; i < ranks_count(r); i++) {
        if (!so(r, i)) {
            return false;
        }
    }
    return true;
}

bool ranks_started(const struct ranks *r)
{
    return are_all(r, is_past_start);
}

bool ranks_prepare(const struct ranks *r)
{
    return are_all(r, has_met) && !ranks_started(r);
}

int ranks_fallen(const struct ranks *r)
{
    for (int i = 0; i < r->workers; i++) {
        if (r->all[i].fallen) {
            return i;
        }
    }
    return -1;
}

int ranks_alive(const struct ranks *r)
{
    int n = 0;
    for (int i = 0; i < r->workers; i++) {
        n += !r->all[i].lost;
    }
    return n;
}

int ranks_first(const struct ranks *r)
{
    int first = 0;
    while (first < r->workers - 1 && r->all[first].lost) {
        first++;
    }
    return first;
}

bool ranks_done(const struct ranks *r)
{
    for (int i = 0; i < ranks_count(r); i++) {
        const struct rank *w = &r->all[i];
        if (!w->lost && !(w->heard && w->beat.phase == PHASE_DONE)) {
            return false;
        }
    }
    return true;
}

/* While a user's program computes, its heartbeats count as progress. */
static bool is_in_long_step(const struct rank *w, double ago, double patience)
{
    static const double unmeasured = 3;
    return w->heard && !w->lost && w->beat.phase == PHASE_COMPUTE &&
           (ago > step_deadline(&w->times, unmeasured) || w->times.compute - ago > patience);
}

bool ranks_in_long_step(const struct ranks *r, double ago, double patience)
{
    for (int i = 0; i < r->workers; i++) {
        if (is_in_long_step(&r->all[i], ago, patience)) {
            return true;
        }
    }
    return false;
}

/* ---- over all of them ------------------------------------------------------------------------ */

bool ranks_stepped(const struct ranks *r)
{
    for (int i = 0; i < r->workers; i++) {
        if (r->all[i].rows == 0 && !r->all[i].left) {
            return false;
        }
    }
    return true;
}

int64_t ranks_samples(const struct ranks *r)
{
    int64_t sum = 0;
    for (int i = 0; i < r->workers; i++) {
        sum += r->all[i].beat.samples;
    }
    return sum;
}

static bool died_unheard(const struct rank *w)
{
    return (w->lost || w->fallen) && !w->left;
}

/* The number of rows that these unreported samples make, if each has as many as the newest row.
 * Some of the rows may have come after the last heartbeat. */
static int64_t rows_of(const struct rank *w, int64_t samples)
{
    int64_t batch = w->batch > 0 ? w->batch : 1, came = w->last_local - w->beat.updates;
    int64_t rows = (samples + batch - 1) / batch - (came > 0 ? came : 0);
    return rows > 0 ? rows : 0;
}

void ranks_credit(struct ranks *r)
{
    int64_t missing = r->all[r->workers].beat.samples - ranks_samples(r);
    int unheard = 0;
    for (int i = 0; i < r->workers; i++) {
        unheard += died_unheard(&r->all[i]);
    }
    for (int i = 0; i < r->workers && missing > 0; i++) {
        if (died_unheard(&r->all[i])) {
            int64_t share = missing / unheard--;
            r->all[i].rows_gone += rows_of(&r->all[i], share);
            r->all[i].beat.samples += share;
            missing -= share;
        }
    }
}

int64_t ranks_rows_lost(const struct ranks *r)
{
    int64_t sum = 0;
    for (int i = 0; i < ranks_count(r); i++) {
        sum += r->all[i].beat.rows_dropped + r->all[i].rows_gone;
    }
    for (int i = 0; i < r->n_left; i++) { /* what lost workers had not sent */
        sum += rows_missing(&r->all[r->left[i].who], r->left[i].pushes);
    }
    return sum;
}

double ranks_slowest_deadline(const struct ranks *r, double unknown)
{
    double slowest = 3;
    for (int i = 0; i < r->workers; i++) {
        double d = r->all[i].lost ? 0 : step_deadline(&r->all[i].times, unknown);
        slowest = d > slowest ? d : slowest;
    }
    return slowest;
}

double ranks_measured_deadline(const struct ranks *r)
{
    double longest = 0;
    for (int i = 0; i < r->workers; i++) {
        double d = r->all[i].lost ? 0 : step_deadline(&r->all[i].times, 0);
        longest = d > longest ? d : longest;
    }
    return longest;
}

int ranks_quantum(const struct ranks *r)
{
    int least = 0;
    for (int i = 0; i < r->workers; i++) {
        least = device_kind_least_quantum(least, r->all[i].device);
    }
    return least;
}

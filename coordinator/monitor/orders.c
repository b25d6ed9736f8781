/* See orders.h. */
#include "coordinator/monitor/orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/documents/coordinator/control.h"

enum { TRUSTED_STEPS = 10 };

int orders_open(struct orders *o, struct store *store, const struct ranks *ranks,
                const struct jobspec *spec, const struct plan *plan, struct err *e)
{
    int n = ranks->workers;
    struct profile **profiles = calloc((size_t)n + 1, sizeof *profiles);
    *o = (struct orders){.store = store, .ranks = ranks, .batching = &spec->batching};
    o->who = calloc((size_t)n + 1, sizeof *o->who);
    o->names = calloc((size_t)n + 1, sizeof *o->names);
    if (!o->who || !o->names) {
        free(profiles);
        return err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
    }
    for (int r = 0; r < n; r++) {
        o->who[r] = r;
        o->names[r] = ranks->names[r];
    }
    profiles_key(spec, o->key);
    o->strategy = catalog_get(spec->strategy.type)->name;
    for (int r = 0; profiles && r < n; r++) {
        const struct rank *w = &ranks->all[r];
        profiles[r] = profiles_get(store, w->node, w->device, w->slowdown, o->key);
    }
    int rc = profiles ? balancer_init(&o->balancer, &spec->batching, n, ranks_quantum(ranks),
                                      (const struct profile *const *)profiles, ranks->names, e)
                      : err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
    profiles_free(profiles, n);
    if (rc < 0) {
        return rc;
    }
    o->balancer.window = WINDOW_SECONDS;
    o->balancer.current.version = plan->first_version;
    memcpy(o->balancer.current.sizes, plan->first_sizes, sizeof plan->first_sizes);
    o->in_lockstep = !jobspec_uses_server(spec);
    o->may_balance = spec->batching.policy == BATCH_DYNAMIC;
    return 0;
}

void orders_close(struct orders *o)
{
    if (o->balancer.profiles) {
        balancer_release(&o->balancer);
    }
    free(o->who);
    free(o->names);
    json_decref(o->doors);
    memset(o, 0, sizeof *o);
}

/* ---- workers that are lost ------------------------------------------------------------------- */

/* The index of a rank in the balancer; -1: it is lost. */
static int place_of(const struct orders *o, int rank)
{
    for (int i = 0; i < o->balancer.workers; i++) {
        if (o->who[i] == rank) {
            return i;
        }
    }
    return -1;
}

/* The job's batching for the workers that are not lost. Writes their ranks to who[] and returns how
 * many they are. Under a server each keeps the minibatch that the job gives it. Else minibatches
 * become weights once a worker is lost, since a step has the whole global batch. */
static int those_there(const struct orders *o, struct batching_spec *b, int *who)
{
    int n = 0, workers = o->ranks->workers;
    *b = *o->batching;
    b->global_batch = o->balancer.batching.global_batch; /* a user's program may have told it */
    bool as_weights = o->in_lockstep && b->n_sizes > 0 && ranks_alive(o->ranks) < workers;
    for (int i = 0; i < workers; i++) {
        if (!o->ranks->all[i].lost) {
            b->weights[n] = as_weights ? o->batching->sizes[i] : o->batching->weights[i];
            b->sizes[n] = o->batching->sizes[i];
            who[n++] = i;
        }
    }
    b->n_sizes = b->n_sizes > 0 && !as_weights ? n : 0;
    b->n_weights = b->n_weights > 0 || as_weights ? n : 0;
    return n;
}

/* The profile as measured in this attempt; else the store's, which the caller frees. */
static const struct profile *profile_of(const struct orders *o, int rank, struct profile **stored)
{
    const struct rank *w = &o->ranks->all[rank];
    int place = place_of(o, rank);
    const struct profile *p = place < 0 ? NULL : &o->balancer.profiles[place];
    if (place < 0) {
        *stored = profiles_get(o->store, w->node, w->device, w->slowdown, o->key);
        return *stored;
    }
    return p->count > 0 ? p : NULL;
}

/* Replaces the balancer by `next`, which shares out among these workers. `reason` begins the
 * assignment's reason. */
static void take_balancer(struct orders *o, struct balancer *next, const char *reason)
{
    char why[240];
    next->window = o->balancer.window;
    next->current.version = o->balancer.current.version + 1;
    next->current.step = o->ranks->step;
    o->amends = false;
    snprintf(why, sizeof why, "%.80s: %.150s", reason, next->current.reason);
    snprintf(next->current.reason, sizeof next->current.reason, "%s", why);
    balancer_release(&o->balancer);
    o->balancer = *next;
    o->owes = true;
}

/* Shares minibatches out among all workers that are not lost. `reason`: what has changed. */
static int share_out(struct orders *o, const char *reason, struct err *e)
{
    struct batching_spec batching;
    struct balancer next;
    const struct profile *profiles[SPEC_WORKERS];
    struct profile *stored[SPEC_WORKERS] = {NULL};
    const char *names[SPEC_WORKERS];
    int who[SPEC_WORKERS], n = those_there(o, &batching, who);
    for (int i = 0; i < n; i++) {
        profiles[i] = profile_of(o, who[i], &stored[i]);
        names[i] = o->ranks->names[who[i]];
    }
    int rc = balancer_init(&next, &batching, n, ranks_quantum(o->ranks), profiles, names, e);
    for (int i = 0; i < n; i++) {
        free(stored[i]);
    }
    if (rc < 0) {
        return rc;
    }
    take_balancer(o, &next, reason);
    memcpy(o->who, who, (size_t)n * sizeof *who);
    memcpy(o->names, names, (size_t)n * sizeof *names);
    return 0;
}

int orders_lose(struct orders *o, int rank, struct err *e)
{
    char reason[80];
    int n = ranks_alive(o->ranks);
    orders_keep_profiles(o, NULL); /* the lost worker's profile is kept for the last time */
    snprintf(reason, sizeof reason, "%.40s left, %d node%s on", o->ranks->names[rank], n,
             n == 1 ? " goes" : "s go");
    return share_out(o, reason, e);
}

int orders_join(struct orders *o, int rank, struct err *e)
{
    char reason[80];
    snprintf(reason, sizeof reason, "%.40s came back, %d nodes go on", o->ranks->names[rank],
             ranks_alive(o->ranks));
    return share_out(o, reason, e);
}

/* A worker that has left, but is not lost in the control document, is on its way back. */
static void adopt_seats(struct ranks *ranks, const struct control *c)
{
    for (int i = 0; i < ranks->workers; i++) {
        ranks->all[i].seats = ranks->all[i].tries = c->seats[i]; /* all count as tries until it has
                                                                    run for long */
        ranks->all[i].joining = c->seats[i] > 0 && ranks->all[i].left;
    }
    for (int i = 0; i < c->n_lost; i++) {
        if (c->lost[i] < ranks->workers) {
            ranks->all[c->lost[i]].joining = false;
        }
    }
}

/* Takes over the workers that the previous coordinator had given up. */
static void adopt_losses(struct orders *o, struct ranks *ranks, const struct control *c)
{
    for (int i = 0; i < c->n_lost; i++) {
        if (c->lost[i] < ranks->workers) {
            ranks->all[c->lost[i]].lost = true;
        }
    }
    adopt_seats(ranks, c);
    if (ranks_alive(ranks) > 0 && ranks_alive(ranks) < o->balancer.workers) {
        orders_lose(o, c->lost[0], NULL);
        o->owes = false; /* it was told */
    }
}

/* Takes over the minibatches, which the previous coordinator may have changed since the plan was
 * written. */
void orders_adopt(struct orders *o, struct ranks *ranks)
{
    json_t *j = store_doc_get(o->store, o->ranks->ours.job, "control", NULL);
    struct control c;
    struct err why = {0};
    char quoted[600];
    if (!j) {
        return;
    }
    if (control_read(&c, j, &why) < 0 || !sender_is(&c.from, &o->ranks->ours)) {
        log_warn("monitor", "control is not of this attempt, the plan's minibatches hold",
                 "job=%s attempt=%d why=%s", o->ranks->ours.job, o->ranks->ours.attempt,
                 log_quote(quoted, sizeof quoted, why.message));
    } else {
        adopt_losses(o, ranks, &c);
        if (c.workers == o->ranks->workers) {
            o->balancer.current.version = c.version;
            for (int i = 0; i < o->balancer.workers; i++) {
                o->balancer.current.sizes[i] = c.sizes[o->who[i]];
            }
        }
        o->stop = c.stop;
        o->pause = c.pause;
    }
    json_decref(j);
}

/* ---- what is measured ------------------------------------------------------------------------ */

void orders_observe(struct orders *o, const struct row *row)
{
    int place = place_of(o, row->rank);
    if (row->batch > 0 && place >= 0) {
        balancer_observe(&o->balancer, place, row->batch, row_own_seconds(row), row->time);
    }
}

void orders_see_quotas(struct orders *o)
{
    for (int i = 0; i < o->balancer.workers; i++) {
        const struct beat *beat = &o->ranks->all[o->who[i]].beat;
        balancer_limit(&o->balancer, i, beat->quota_batch, beat->quota_seconds);
    }
}

void orders_calibrate(struct orders *o, int rank, double a, double k, int max_batch)
{
    int place = place_of(o, rank), batch = o->ranks->all[rank].batch;
    struct profile *p = &o->balancer.profiles[place < 0 ? 0 : place];
    if (place < 0) {
        return;
    }
    if (p->count == 0 && k > 0) {
        int big = batch > 16 ? batch : 16, small = big / 4;
        for (int i = 0; i < 3; i++) {
            profile_observe(p, small, a + k * small);
            profile_observe(p, big, a + k * big);
        }
    }
    p->max_batch = max_batch;
}

int orders_take_batch(struct orders *o, int global_batch, struct err *e)
{
    int rc = balancer_take_batch(&o->balancer, global_batch, e);
    o->owes = o->owes || rc == BALANCE_CHANGED;
    return rc < 0 ? rc : 0;
}

void orders_take_samples(struct orders *o, int64_t samples, bool told)
{
    int before[SPEC_WORKERS], after[SPEC_WORKERS];
    struct assignment *a = &o->balancer.current;
    char why[240];
    orders_sizes(o, before);
    o->samples = samples;
    o->narrowed |= o->in_lockstep && o->may_balance && balancer_narrow(&o->balancer, samples);
    orders_sizes(o, after);
    if (told || memcmp(before, after, (size_t)o->ranks->workers * sizeof *after) == 0) {
        return;
    }
    snprintf(why, sizeof why, "the training set has %lld samples: %.180s", (long long)samples,
             a->reason);
    snprintf(a->reason, sizeof a->reason, "%s", why);
    o->amends = !o->owes;
    o->owes = true;
}

/* Notes how long a step exchanges. After a loss the exchange is that of fewer workers, so it is not
 * noted. */
static void note_exchange(struct exchanged *x, const struct orders *o, const struct rank *w)
{
    if (w->times.steps >= TRUSTED_STEPS && o->balancer.workers == o->ranks->workers) {
        snprintf(x->strategy, sizeof x->strategy, "%s", o->strategy);
        x->workers = o->ranks->workers;
        x->seconds = w->times.exchange_usual;
    }
}

void orders_settle(struct orders *o)
{
    balancer_flush(&o->balancer);
}

/* Does the profile rest on enough steps? Rows count too, since several short steps may be one
 * observation. */
static bool is_trusted(const struct profile *p, const struct rank *w)
{
    return w->rows > 0 && p->count > 0 && (p->count >= TRUSTED_STEPS || w->rows >= TRUSTED_STEPS);
}

int orders_keep_profiles(const struct orders *o, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < o->balancer.workers; i++) {
        const struct rank *w = &o->ranks->all[o->who[i]];
        struct measured m = {
            .profile = o->balancer.profiles[i], .slowdown = w->slowdown, .tuning = w->tuning};
        if (!is_trusted(&m.profile, w) && !w->overfull) {
            continue;
        }
        snprintf(m.device, sizeof m.device, "%s", w->device);
        note_exchange(&m.exchange, o, w);
        json_t *j = measured_json(&m);
        rc = store_profile_put(o->store, w->node, o->key, j, e);
        json_decref(j);
    }
    return rc;
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* The minibatches that the ranks know: shares of the global batch that was asked for. */
static void share_asked(const struct orders *o, int *sizes)
{
    const struct balancer *b = &o->balancer;
    if (o->narrowed) {
        balancer_share(b, o->batching->global_batch, sizes);
    } else {
        memcpy(sizes, b->current.sizes, (size_t)b->workers * sizeof *sizes);
    }
}

/* The doors of all ranks; NULL: no rank has one. */
static json_t *list_doors(const struct ranks *ranks)
{
    json_t *doors = NULL;
    for (int r = 0; r <= ranks->workers && r < ranks_count(ranks); r++) {
        doors = ranks->all[r].beat.door[0] && !doors ? json_array() : doors;
    }
    for (int r = 0; doors && r <= ranks->workers && r < ranks_count(ranks); r++) {
        json_array_append_new(doors, jsonx_text(ranks->all[r].beat.door));
    }
    return doors;
}

void orders_see_doors(struct orders *o)
{
    json_t *doors = list_doors(o->ranks);
    if (doors && !json_equal(doors, o->doors)) {
        json_decref(o->doors);
        o->doors = doors;
        o->owes_word = true;
        return;
    }
    json_decref(doors);
}

static int write_control(const struct orders *o, struct err *e)
{
    struct control c = {.from = o->ranks->ours,
                        .version = o->balancer.current.version,
                        .workers = o->ranks->workers,
                        .stop = o->stop,
                        .pause = o->pause,
                        .doors = o->doors};
    int sizes[SPEC_WORKERS];
    share_asked(o, sizes);
    for (int i = 0; i < o->balancer.workers; i++) {
        c.sizes[o->who[i]] = sizes[i];
    }
    for (int r = 0; r < o->ranks->workers; r++) {
        const struct rank *w = &o->ranks->all[r];
        c.seats[r] = w->seats;
        if (w->lost && !w->joining) {
            c.lost[c.n_lost++] = r;
        }
        if (w->silent) {
            c.silent[c.n_silent++] = r;
        }
    }
    json_t *j = control_json(&c);
    int rc = store_doc_set(o->store, o->ranks->ours.job, "control", j, e);
    json_decref(j);
    return rc;
}

/* The workers' document is written first: the assignment holds whether or not it can be
 * published. */
static int tell_assignment(struct orders *o, struct err *e)
{
    char when[32], quoted[300];
    const char *job = o->ranks->ours.job;
    struct assignment a = o->balancer.current;
    int rc = write_control(o, e);
    if (rc < 0) {
        return rc;
    }
    assign_taken(a.sizes, a.workers, o->in_lockstep, o->samples);
    json_t *j = assignment_json(&a, o->names, clock_format(when, clock_wall_ms()));
    rc = o->amends ? store_assignment_amend(o->store, job, j, e)
                   : store_assignment_add(o->store, job, j, e);
    if (rc >= 0) {
        o->owes = o->amends = false;
        log_info("monitor", "new minibatches", "job=%s version=%d step=%lld why=%s", job, a.version,
                 (long long)a.step, log_quote(quoted, sizeof quoted, a.reason));
        store_event(o->store, job, "assignment", j, NULL);
    }
    json_decref(j);
    return rc;
}

int orders_balance(struct orders *o, bool ending, struct err *e)
{
    if (!o->owes && o->may_balance && !o->stop && !o->pause && !ending) {
        o->owes = balancer_decide(&o->balancer, o->ranks->step);
    }
    return o->owes ? tell_assignment(o, e) : o->owes_word ? orders_tell(o, e) : 0;
}

int orders_tell(struct orders *o, struct err *e)
{
    int rc = write_control(o, e);
    o->owes_word = o->owes_word && rc < 0;
    return rc;
}

void orders_owe(struct orders *o)
{
    o->owes_word = true;
}

int orders_ask(struct orders *o, bool stop, bool pause, struct err *e)
{
    if (o->stop == stop && o->pause == pause) {
        return 0;
    }
    bool old_stop = o->stop, old_pause = o->pause;
    o->stop = stop;
    o->pause = pause;
    int rc = write_control(o, e);
    if (rc < 0) {
        o->stop = old_stop;
        o->pause = old_pause;
    }
    return rc;
}

int orders_version(const struct orders *o)
{
    return o->balancer.current.version;
}

void orders_sizes(const struct orders *o, int *sizes)
{
    const struct balancer *b = &o->balancer;
    int taken[SPEC_WORKERS];
    memcpy(taken, b->current.sizes, (size_t)b->workers * sizeof *taken);
    assign_taken(taken, b->workers, o->in_lockstep, o->samples);
    memset(sizes, 0, (size_t)o->ranks->workers * sizeof *sizes);
    for (int i = 0; i < b->workers; i++) {
        sizes[o->who[i]] = taken[i];
    }
}

struct line orders_line(const struct orders *o, int rank, double *error)
{
    int place = place_of(o, rank);
    const struct profile *p = place < 0 ? NULL : &o->balancer.profiles[place];
    bool known = o->may_balance && p && p->count > 0;
    *error = known ? profile_error(p, o->balancer.current.sizes[place]) : 0;
    return known ? balancer_line(&o->balancer, place) : (struct line){0};
}

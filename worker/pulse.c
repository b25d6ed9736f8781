/* The pulse's two sides (see pulse.h): the telemetry calls, made by the main thread, and the thread
 * that owns the connection.
 *
 * What a newcomer would get wrong: a row leaves the queue only after the store took it, and the
 * queue may have dropped that very row meanwhile, so rows are known by their number since the start
 * and never by their place in the ring.
 */
#include "worker/pulse.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/row.h"
#include "job/staleness.h"
#include "store/store.h"

enum { ROWS = 16384, ROWS_AT_ONCE = 512, FACTS = 256 };
static const int64_t turn_ns = 160000000;
static const double beat_seconds = 0.4;
static const double WORKING = 0.01; /* share of a core: less is a thread that waits */

struct pulse {
    struct store *store; /* the thread's */
    char job[64], node[64];
    int rank, attempt, workers;
    bool reads_control;
    double (*comm_age)(void *ctx);
    void *comm_ctx;
    const volatile sig_atomic_t *stop_signal;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct row *rows;           /* ring of ROWS; owned */
    uint64_t first_row, n_rows; /* number of the oldest one kept; of the next one to come */
    uint64_t dropped;
    json_t *facts[FACTS];
    int n_facts;
    struct control control;
    bool checkpoint_asked; /* the document's flag as last read, to see it rise */
    enum phase phase;
    double progress_at;
    clockid_t trainer;        /* CPU time of the thread that trains */
    double worked, worked_at; /* that time when it was last seen to move, and when that was */
    int64_t step, samples, updates;
    int64_t received, receives; /* bytes of the keeper's data set; receives 0: none comes */
    double epoch, busy_fraction;
    int batch;
    struct staleness staleness;
    bool stopping;
    double stop_by;
};

/* ---- the trainer's side ---------------------------------------------------------------------- */

static void on_phase(void *ctx, enum phase phase)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->phase = phase;
    p->progress_at = clock_now();
    if (phase == PHASE_CHECKPOINT) { /* rows of the steps that it covers are nowhere else once this
                                        rank is killed */
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
}

static void count_row(struct pulse *p, const struct row *r)
{
    p->step = r->step > p->step ? r->step : p->step;
    p->epoch = r->epoch;
    p->batch = r->batch;
    if (r->batch > 0) {
        p->samples += r->batch;
        p->updates++;
        staleness_add(&p->staleness, r->staleness, r->batch);
    }
}

static void on_received(void *ctx, int64_t bytes, int64_t of_bytes)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->received = bytes;
    p->receives = of_bytes;
    pthread_mutex_unlock(&p->lock);
}

static void on_row(void *ctx, const struct row *r)
{
    struct pulse *p = ctx;
    struct row row = *r;
    row.attempt = (int16_t)p->attempt;
    pthread_mutex_lock(&p->lock);
    count_row(p, r);
    if (p->n_rows - p->first_row == ROWS) {
        p->first_row++;
        p->dropped++;
    }
    p->rows[p->n_rows++ % ROWS] = row;
    p->progress_at = clock_now();
    pthread_mutex_unlock(&p->lock);
}

void pulse_fact(struct pulse *p, json_t *fact)
{
    if (!fact) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    if (p->n_facts == FACTS) { /* Redis has been away for long: the oldest goes */
        json_decref(p->facts[0]);
        memmove(p->facts, p->facts + 1, sizeof(p->facts[0]) * --p->n_facts);
    }
    p->facts[p->n_facts++] = fact;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void on_evaluated(void *ctx, const struct evaluation *v)
{
    pulse_fact(ctx, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:b}", "type", "evaluation",
                              "step", (json_int_t)v->step, "epoch", v->epoch, "time", v->time,
                              "loss", v->loss, "accuracy", v->accuracy, "samples",
                              (json_int_t)v->samples, "final", v->final));
}

static void on_profile(void *ctx, const struct profile *profile)
{
    struct pulse *p = ctx;
    pulse_fact(p, json_pack("{s:s, s:i, s:s, s:f, s:f, s:i, s:b}", "type", "profile", "rank",
                            p->rank, "node", p->node, "a", profile->a, "k", profile->k, "max_batch",
                            profile->max_batch, "calibrated", 1));
}

static void on_tuned(void *ctx, json_t *tuning)
{
    struct pulse *p = ctx;
    pulse_fact(p, json_pack("{s:s, s:i, s:s, s:o}", "type", "tuning", "rank", p->rank, "node",
                            p->node, "tuning", tuning));
}

static void on_saved(void *ctx, const char *kind, const char *path, int64_t step, double time)
{
    bool checkpoint = strcmp(kind, "checkpoint") == 0;
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->step = step > p->step ? step : p->step;
    pthread_mutex_unlock(&p->lock);
    pulse_fact(p, json_pack("{s:s, s:s, s:I, s:f}", "type", kind, checkpoint ? "path" : "name",
                            path, "step", (json_int_t)step, "time", time));
}

/* Counters go on from the checkpoint: as the server kept them for each worker, else (sync: nothing
 * is stale) in equal shares. */
static void restore_counters(struct pulse *p, const struct run_state *state)
{
    const json_t *kept = json_object_get(state->extra, "staleness");
    staleness_release(&p->staleness);
    staleness_init(&p->staleness);
    if (json_is_array(kept)) {
        staleness_restore(&p->staleness, kept, p->rank, p->workers);
        p->samples = (int64_t)p->staleness.samples;
        p->updates = p->staleness.count;
        return;
    }
    p->samples =
        state->applied_samples / p->workers + (p->rank < state->applied_samples % p->workers);
    p->updates = state->version;
    for (int64_t i = 0; i < p->updates; i++) {
        staleness_add(&p->staleness, 0, (int)(p->samples / p->updates));
    }
}

static void on_restored(void *ctx, const struct run_state *state)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->step = state->version;
    if (p->rank < p->workers) {
        restore_counters(p, state);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->rank == p->workers) {
        pulse_fact(
            p, json_pack("{s:s, s:I}", "type", "restored", "version", (json_int_t)state->version));
    }
}

static void on_control(void *ctx, struct control *out)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    *out = p->control;
    p->control.checkpoint = false; /* asked for once */
    pthread_mutex_unlock(&p->lock);
    if (p->stop_signal && *p->stop_signal) {
        out->stop = true;
    }
}

static void on_served(void *ctx, int64_t version, double busy_fraction)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->step = version;
    p->busy_fraction = busy_fraction;
    p->progress_at = clock_now();
    pthread_mutex_unlock(&p->lock);
}

void pulse_telemetry(struct pulse *p, struct telemetry *out)
{
    *out = (struct telemetry){.ctx = p,
                              .phase = on_phase,
                              .row = on_row,
                              .evaluated = on_evaluated,
                              .profile = on_profile,
                              .saved = on_saved,
                              .control = on_control,
                              .restored = on_restored,
                              .tuned = on_tuned,
                              .received = on_received,
                              .served = on_served};
}

void pulse_ended(struct pulse *p, const char *outcome, const struct err *why)
{
    pulse_fact(p, json_pack("{s:s, s:s, s:s, s:s, s:i, s:s}", "type", "ended", "outcome", outcome,
                            "code", why ? err_name(why->code) : "none", "message",
                            why ? why->message : "", "rank", p->rank, "node", p->node));
}

/* ---- the thread's side ----------------------------------------------------------------------- */

static int send_facts(struct pulse *p)
{
    for (;;) {
        pthread_mutex_lock(&p->lock);
        json_t *fact = p->n_facts ? json_incref(p->facts[0]) : NULL;
        pthread_mutex_unlock(&p->lock);
        if (!fact) {
            return 0;
        }
        int rc = store_fact_add(p->store, p->job, fact, NULL);
        pthread_mutex_lock(&p->lock);
        if (rc >= 0 && p->n_facts && p->facts[0] == fact) {
            json_decref(fact);
            memmove(p->facts, p->facts + 1, sizeof(p->facts[0]) * (size_t)--p->n_facts);
        }
        pthread_mutex_unlock(&p->lock);
        json_decref(fact);
        if (rc < 0) {
            return -1;
        }
    }
}

/* Age of the trainer's last work: a thread that waits for something that never comes uses no CPU, a
 * slow one does. */
static double work_age(struct pulse *p)
{
    struct timespec t;
    double now = clock_now(), worked = clock_gettime(p->trainer, &t) == 0
                                           ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec
                                           : p->worked;
    if (worked - p->worked >= WORKING * (now - p->worked_at)) {
        p->worked = worked;
        p->worked_at = now;
    }
    return now - p->worked_at;
}

static json_t *beat_json(struct pulse *p)
{
    double comm_age = p->comm_age ? p->comm_age(p->comm_ctx) : 0;
    pthread_mutex_lock(&p->lock);
    json_t *beat = json_pack(
        "{s:i, s:s, s:i, s:s, s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:i, s:o, s:I}", "rank", p->rank,
        "node", p->node, "attempt", p->attempt, "phase", phase_name(p->phase), "progress_age",
        clock_now() - p->progress_at, "work_age", work_age(p), "comm_age", comm_age, "step",
        (json_int_t)p->step, "epoch", p->epoch, "samples", (json_int_t)p->samples, "updates",
        (json_int_t)p->updates, "batch", p->batch, "staleness", staleness_dump(&p->staleness),
        "rows_dropped", (json_int_t)p->dropped);
    if (beat && p->rank >= p->workers) {
        json_object_set_new(beat, "busy_fraction", json_real(p->busy_fraction));
    }
    if (beat && p->receives > 0) {
        json_object_set_new(beat, "receiving",
                            json_pack("{s:I, s:I}", "bytes", (json_int_t)p->received, "of_bytes",
                                      (json_int_t)p->receives));
    }
    pthread_mutex_unlock(&p->lock);
    return beat;
}

static bool asked(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_true(v) || json_integer_value(v) != 0;
}

static void take_control(struct pulse *p, const json_t *j)
{
    const json_t *sizes = json_object_get(j, "sizes");
    int version = (int)json_integer_value(json_object_get(j, "version"));
    bool checkpoint = asked(j, "checkpoint");
    pthread_mutex_lock(&p->lock);
    if (version > p->control.version && json_array_size(sizes) == (size_t)p->workers) {
        p->control.version = version;
        for (int i = 0; i < p->workers; i++) {
            p->control.sizes[i] = (int)json_integer_value(json_array_get(sizes, (size_t)i));
        }
    }
    p->control.stop = asked(j, "stop");
    p->control.pause = asked(j, "pause");
    p->control.checkpoint = p->control.checkpoint || (checkpoint && !p->checkpoint_asked);
    p->checkpoint_asked = checkpoint;
    pthread_mutex_unlock(&p->lock);
}

/* Sends rows until none is left or the store is away; -1 then. The last of them go with the
 * heartbeat, if one is due; control comes back with either. */
static int report(struct pulse *p, bool beats)
{
    struct row batch[ROWS_AT_ONCE];
    for (;;) {
        pthread_mutex_lock(&p->lock);
        uint64_t first = p->first_row, left = p->n_rows - first,
                 n = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        for (uint64_t i = 0; i < n; i++) {
            batch[i] = p->rows[(first + i) % ROWS];
        }
        pthread_mutex_unlock(&p->lock);
        bool last = left == n;
        json_t *beat = last && beats ? beat_json(p) : NULL;
        struct store_report r = {batch, (int)n, beat, last && p->reads_control, NULL};
        int rc = n || beat ? store_report(p->store, p->job, p->rank, &r, NULL) : 0;
        json_decref(beat);
        if (rc < 0) {
            return -1;
        }
        if (r.control) {
            take_control(p, r.control);
        }
        json_decref(r.control);
        pthread_mutex_lock(&p->lock);
        p->first_row = p->first_row > first + n ? p->first_row : first + n;
        pthread_mutex_unlock(&p->lock);
        if (last) {
            return 0;
        }
    }
}

/* Rows go before facts, for the fact that ends a job comes last; and heartbeats after them, for
 * what a heartbeat tells (a phase) is made sense of by facts. */
static int send_all(struct pulse *p, bool beats)
{
    pthread_mutex_lock(&p->lock);
    bool facts = p->n_facts > 0;
    pthread_mutex_unlock(&p->lock);
    if (facts && (report(p, false) < 0 || send_facts(p) < 0)) {
        return -1;
    }
    return report(p, beats);
}

/* Sleeps until the next turn, or until something urgent is queued. Turns are at the same moments in
 * all ranks, by the clock on the wall: what comes to Redis together is synced to its file together,
 * and the coordinator reads it right after. Returns whether the pulse is to end. */
static bool sleep_turn(struct pulse *p)
{
    struct timespec wall, until;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &until); /* somebody may set the other one */
    int64_t left = turn_ns - (wall.tv_sec * 1000000000LL + wall.tv_nsec) % turn_ns,
            next = until.tv_nsec + left;
    until.tv_sec += next / 1000000000LL;
    until.tv_nsec = next % 1000000000LL;
    pthread_mutex_lock(&p->lock);
    if (!p->stopping) {
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
    }
    bool stopping = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return stopping;
}

static void *pulse_main(void *arg)
{
    struct pulse *p = arg;
    double beat_at = 0;
    bool away = false;
    pthread_setname_np(pthread_self(), "pulse");
    for (;;) {
        bool stopping = sleep_turn(p);
        double now = clock_now();
        bool beats = stopping || now >= beat_at;
        int rc = send_all(p, beats);
        beat_at = rc >= 0 && beats ? now + beat_seconds : beat_at;
        if (away != (rc < 0)) {
            away = rc < 0;
            log_write(away ? LOG_WARN : LOG_INFO, "pulse",
                      away ? "the store is away, training goes on" : "the store is back", "rank=%d",
                      p->rank);
        }
        if (stopping && (rc >= 0 || clock_now() >= p->stop_by)) {
            return NULL;
        }
        if (stopping) {
            clock_sleep((double)turn_ns / 1e9);
        }
    }
}

/* ---- start and end --------------------------------------------------------------------------- */

static void release(struct pulse *p)
{
    store_close(p->store);
    for (int i = 0; i < p->n_facts; i++) {
        json_decref(p->facts[i]);
    }
    staleness_release(&p->staleness);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->rows);
    free(p);
}

struct pulse *pulse_start(const struct pulse_config *c, struct err *e)
{
    struct pulse *p = calloc(1, sizeof(*p));
    if (!p || !(p->rows = calloc(ROWS, sizeof(*p->rows)))) {
        free(p);
        err_set(e, ERR_MEMORY, "cannot start the pulse: memory ran out");
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    staleness_init(&p->staleness);
    snprintf(p->job, sizeof(p->job), "%s", c->job);
    snprintf(p->node, sizeof(p->node), "%s", c->node);
    p->rank = c->rank;
    p->attempt = c->attempt;
    p->workers = c->workers;
    p->reads_control = c->reads_control;
    p->comm_age = c->comm_age;
    p->comm_ctx = c->comm_ctx;
    p->stop_signal = c->stop;
    p->control.version = c->first_version;
    memcpy(p->control.sizes, c->first_sizes, sizeof(int) * (size_t)c->workers);
    p->progress_at = p->worked_at = clock_now();
    pthread_getcpuclockid(pthread_self(), &p->trainer);
    p->store = store_open(c->url, c->password, e);
    if (!p->store) {
        release(p);
        return NULL;
    }
    if (pthread_create(&p->thread, NULL, pulse_main, p) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the pulse's thread");
        release(p);
        return NULL;
    }
    return p;
}

void pulse_stop(struct pulse *p, double grace)
{
    if (!p) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    p->stop_by = clock_now() + grace;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    release(p);
}

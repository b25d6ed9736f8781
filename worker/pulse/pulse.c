/* The pulse's thread, which owns the connection to the store (see pulse.h; trainer_side.c has the
 * calls of the thread that trains).
 *
 * A row leaves the queue once the store has taken it. The queue may have dropped that row
 * meanwhile, so rows are identified by their number since the start and never by their index in the
 * ring.
 */
#include "worker/pulse/parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/documents/ranks/beat.h"

enum { ROWS_AT_ONCE = 512 };
static const int64_t turn_ns = 160000000;
static const double beat_seconds = 0.4;
static const double WORKING = 0.01; /* share of a core: a thread below it waits */

/* ---- the thread's side ----------------------------------------------------------------------- */

/* Those that are there now: where each of many short epochs is evaluated, new ones come as fast as
 * they are sent, and control and heartbeats have to go on. */
static int send_facts(struct pulse *p, int n)
{
    for (; n > 0; n--) {
        pthread_mutex_lock(&p->lock);
        json_t *fact = p->n_facts ? json_incref(p->facts[0]) : NULL;
        pthread_mutex_unlock(&p->lock);
        if (!fact) {
            break;
        }
        int rc = store_fact_add(p->store, p->from.job, fact, NULL);
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
    return 0;
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

static json_t *make_beat(struct pulse *p)
{
    struct beat b = {.from = p->from};
    b.comm_age = p->comm_age ? p->comm_age(p->comm_ctx) : 0;
    snprintf(b.node, sizeof(b.node), "%s", p->node);
    pthread_mutex_lock(&p->lock);
    b.number = ++p->number;
    b.phase = p->phase;
    b.progress_age = clock_now() - p->progress_at;
    b.work_age = work_age(p);
    b.step = p->step;
    b.epoch = p->epoch;
    b.samples = p->samples;
    b.updates = p->updates;
    b.batch = p->batch;
    b.staleness = p->staleness;
    b.rows_dropped = (int64_t)p->dropped;
    b.busy_fraction = p->busy_fraction;
    b.received = p->received;
    b.receives = p->receives;
    json_t *j = beat_json(&b);
    pthread_mutex_unlock(&p->lock);
    return j;
}

/* Logged at the first time, the second, the fourth … */
static void drop_control(struct pulse *p, const char *why)
{
    char quoted[600];
    p->strays++;
    if ((p->strays & (p->strays - 1)) == 0) {
        log_warn("pulse", "a control document is dropped", "times=%lld why=%s",
                 (long long)p->strays, log_quote(quoted, sizeof(quoted), why));
    }
}

static void take_control(struct pulse *p, const json_t *j)
{
    struct control c;
    struct err why = {0};
    int rc = control_read(&c, j, &why);
    if (rc == 0 && !sender_is(&c.from, &p->from)) {
        rc = err_set(&why, ERR_CONFLICT, "it is of attempt %d, this rank of attempt %d",
                     c.from.attempt, p->from.attempt);
    }
    if (rc < 0) {
        drop_control(p, why.message);
        return;
    }
    pthread_mutex_lock(&p->lock);
    if (c.version > p->control.version && c.workers == p->workers) {
        p->control.version = c.version;
        memcpy(p->control.sizes, c.sizes, sizeof(c.sizes));
    }
    p->control.n_lost = c.n_lost;
    memcpy(p->control.lost, c.lost, sizeof(int) * (size_t)c.n_lost);
    for (int i = 0; i < p->workers; i++) {
        p->control.seats[i] = c.seats[i];
        p->seats_taken = p->seats_taken || c.seats[i] > 0;
    }
    p->control.stop = c.stop;
    p->control.pause = c.pause;
    p->control.checkpoint = p->control.checkpoint || (c.checkpoint && !p->checkpoint_asked);
    p->checkpoint_asked = c.checkpoint;
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
            batch[i] = p->rows[(first + i) % PULSE_ROWS];
        }
        pthread_mutex_unlock(&p->lock);
        bool last = left == n;
        json_t *beat = last && beats ? make_beat(p) : NULL;
        struct store_report r = {batch, (int)n, beat, last && p->reads_control, NULL};
        bool asks = n || beat || (last && p->reads_each_turn);
        int rc = asks ? store_report(p->store, p->from.job, p->from.rank, &r, NULL) : 0;
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

/* Rows go before facts, because the fact that ends a job comes last; heartbeats go after facts,
 * because facts explain the phase in a heartbeat. */
static int send_all(struct pulse *p, bool beats)
{
    pthread_mutex_lock(&p->lock);
    int facts = p->n_facts;
    pthread_mutex_unlock(&p->lock);
    if (facts > 0 && (report(p, false) < 0 || send_facts(p, facts) < 0)) {
        return -1;
    }
    return report(p, beats);
}

/* Sleeps until the next turn, or until something urgent is queued. All ranks take their turns at
 * the same times of the wall clock: Redis syncs what arrives together at once, and the coordinator
 * reads it right after. Returns whether the pulse is to end. */
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
                      p->from.rank);
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
    if (!p || !(p->rows = calloc(PULSE_ROWS, sizeof(*p->rows)))) {
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
    snprintf(p->from.job, sizeof(p->from.job), "%s", c->job);
    snprintf(p->node, sizeof(p->node), "%s", c->node);
    p->from.rank = c->rank;
    p->from.attempt = c->attempt;
    p->workers = c->workers;
    p->first_version = c->first_version;
    p->reads_control = c->reads_control;
    p->reads_each_turn = c->reads_each_turn;
    p->comm_age = c->comm_age;
    p->comm_ctx = c->comm_ctx;
    p->stop_signal = c->stop;
    p->number = c->first_number;
    p->control.version = c->first_version;
    memcpy(p->control.sizes, c->first_sizes, sizeof(int) * (size_t)c->workers);
    p->progress_at = p->worked_at = clock_now();
    pthread_getcpuclockid(pthread_self(), &p->trainer);
    p->store = store_open(c->url, c->password, e);
    if (!p->store) {
        release(p);
        return NULL;
    }
    if (c->seal) {
        store_seal_with(p->store, c->seal);
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

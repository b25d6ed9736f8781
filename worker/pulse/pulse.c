/* The pulse's thread, which owns the connection to the store (see pulse.h; trainer_side.c has the
 * calls of the thread that trains).
 *
 * A row leaves the queue once the store has taken it. The queue may have dropped that row
 * meanwhile, so rows are identified by their number since the start and never by their index in the
 * ring.
 */
#include "worker/pulse/parts.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/machine/host.h"
#include "job/documents/ranks/beat.h"

enum { ROWS_AT_ONCE = 512 };
static const int64_t turn_ns = 160000000;
static const double beat_seconds = 0.4;
static const double quota_seconds = 1;
static const double CPU_STEPS = 16;  /* how many older steps count as much as the new ones */
static const double AFTER_LOSS = 30; /* seconds */
enum { HANGS_TURNS = 4 };
static const double WORKING = 0.01; /* share of a core; a thread below it is waiting */

/* ---- the thread's side ----------------------------------------------------------------------- */

/* Age of the trainer's last work. A thread that waits for something that never comes uses no CPU
 * time; a slow one does. */
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

/* A quota may change at any time; reading it costs as much as the rest of a heartbeat. */
static double read_quota(struct pulse *p)
{
    double now = clock_now();
    if (now >= p->quota_next) {
        p->quota_read = host_quota();
        p->quota_next = now + quota_seconds;
    }
    return p->quota_read;
}

/* Says how the quota limits the CPU time of steps. */
static void add_quota(struct pulse *p, struct beat *b, double quota)
{
    struct cpu_used *c = &p->cpu;
    p->quota = quota;
    if (quota <= 0) {
        *c = (struct cpu_used){.elsewhere = true};
    }
    if (c->steps > 0) {
        double keep = fmin(1, CPU_STEPS / c->steps);
        b->quota_batch = c->batch;
        b->quota_seconds = c->seconds / c->steps / quota;
        c->seconds *= keep;
        c->steps *= keep;
    }
}

static json_t *make_beat(struct pulse *p)
{
    struct beat b = {.from = p->from};
    double quota = read_quota(p);
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
    add_quota(p, &b, quota);
    memcpy(b.door, p->door, sizeof(b.door));
    b.received = p->received;
    b.receives = p->receives;
    json_t *j = beat_json(&b);
    pthread_mutex_unlock(&p->lock);
    return j;
}

/* Logs the first, the second, the fourth … time. */
static void drop_control(struct pulse *p, const char *why)
{
    char quoted[600];
    p->strays++;
    if ((p->strays & (p->strays - 1)) == 0) {
        log_warn("pulse", "a control document is dropped", "times=%lld why=%s",
                 (long long)p->strays, log_quote(quoted, sizeof(quoted), why));
    }
}

/* Do they differ in who is lost, or was started again? */
static bool differs(const struct control *a, const struct control *b, int workers)
{
    bool same =
        a->n_lost == b->n_lost && memcmp(a->lost, b->lost, sizeof(int) * (size_t)a->n_lost) == 0;
    for (int i = 0; i < workers; i++) {
        same = same && a->seats[i] == b->seats[i];
    }
    return !same;
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
    if (differs(&c, &p->control, p->workers)) {
        p->lost_at = clock_now();
    }
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
    json_decref(p->doors);
    p->doors = control_doors(j);
    p->control.stop = c.stop;
    p->control.pause = c.pause;
    p->control.checkpoint = p->control.checkpoint || (c.checkpoint && !p->checkpoint_asked);
    p->checkpoint_asked = c.checkpoint;
    pthread_mutex_unlock(&p->lock);
}

/* What goes up in one round trip: rows from number `first` on; a fact, after the last row; and with
 * the last fact the heartbeat, if it is due. */
struct bundle {
    struct row rows[ROWS_AT_ONCE];
    uint64_t first, n;
    json_t *fact;
    bool last;
};

static void take_bundle(struct pulse *p, int facts, struct bundle *out)
{
    pthread_mutex_lock(&p->lock);
    uint64_t left = p->n_rows - p->first_row;
    out->first = p->first_row;
    out->n = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
    for (uint64_t i = 0; i < out->n; i++) {
        out->rows[i] = p->rows[(out->first + i) % PULSE_ROWS];
    }
    bool all_rows = left == out->n;
    out->fact = all_rows && facts > 0 && p->n_facts ? json_incref(p->facts[0]) : NULL;
    out->last = all_rows && (facts <= 1 || !out->fact);
    pthread_mutex_unlock(&p->lock);
}

/* Removes what was sent; the queues may have dropped some of it meanwhile. */
static void drop_bundle(struct pulse *p, const struct bundle *sent)
{
    pthread_mutex_lock(&p->lock);
    uint64_t after = sent->first + sent->n;
    p->first_row = p->first_row > after ? p->first_row : after;
    if (sent->fact && p->n_facts && p->facts[0] == sent->fact) {
        json_decref(p->facts[0]);
        memmove(p->facts, p->facts + 1, sizeof(p->facts[0]) * (size_t)--p->n_facts);
    }
    pthread_mutex_unlock(&p->lock);
}

static int send_bundle(struct pulse *p, const struct bundle *b, bool beats)
{
    json_t *beat = b->last && beats ? make_beat(p) : NULL;
    struct store_report r = {.rows = b->rows,
                             .n_rows = (int)b->n,
                             .fact = b->fact,
                             .beat = beat,
                             .wants_control = b->last && p->reads_control};
    bool asks = b->n || b->fact || beat || (b->last && p->reads_each_turn);
    int rc = asks ? store_report(p->store, p->from.job, p->from.rank, &r, NULL) : 0;
    json_decref(beat);
    if (rc >= 0 && r.control) {
        take_control(p, r.control);
    }
    json_decref(r.control);
    return rc;
}

/* The metrics that were logged become a fact. They wait while there are others, so that they take
 * no room from them where the store is away. The caller holds the lock. */
static void queue_logged(struct pulse *p)
{
    if (p->logged.n == 0 || p->n_facts >= PULSE_FACTS / 2) {
        return;
    }
    struct fact f = {.type = FACT_LOGGED,
                     .from = p->from,
                     .logged = {.count = p->logged.n, .points = p->logged.points}};
    snprintf(f.node, sizeof(f.node), "%s", p->node);
    pulse_queue(p, &f);
    p->logged.n = 0;
}

/* Sends the queues; -1 if the store is away. Rows go before facts, because the fact that ends a job
 * comes last. The heartbeat goes after facts, because facts explain its phase. It sends only the
 * facts that are queued at the call: a job that evaluates after each of many short epochs queues
 * new ones as fast as they are sent, and control and heartbeats must not wait for them. */
static int send_all(struct pulse *p, bool beats)
{
    struct bundle b;
    b.last = false;
    pthread_mutex_lock(&p->lock);
    queue_logged(p);
    int facts = p->n_facts, rc = 0;
    pthread_mutex_unlock(&p->lock);
    while (rc >= 0 && !b.last) {
        take_bundle(p, facts, &b);
        rc = send_bundle(p, &b, beats);
        if (rc >= 0) {
            drop_bundle(p, &b);
        }
        facts -= b.fact ? 1 : 0;
        json_decref(b.fact);
    }
    return rc < 0 ? -1 : 0;
}

/* Sleeps until the next turn, or until something urgent is queued. All ranks take their turns at
 * the same times of the wall clock: Redis syncs what arrives together at once, and the coordinator
 * reads it right after that. Returns whether the pulse is to end. */
static bool sleep_turn(struct pulse *p)
{
    struct timespec wall, until;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &until); /* the wall clock may be set back */
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

/* Does the communication thread hang? If a worker dies while it appends to this rank's queue in
 * shared memory, Open MPI never returns from its next call (docs/decisions/0061). Turns are
 * counted, too: on a machine that stood still, this thread was as late as the other one. */
static bool hangs(struct pulse *p)
{
    bool late = p->comm_hangs && p->lost_at > 0 && clock_now() - p->lost_at < AFTER_LOSS &&
                p->comm_hangs(p->comm_ctx);
    p->hanging = late ? p->hanging + 1 : 0;
    return p->hanging >= HANGS_TURNS;
}

/* Ends this process. The other ranks continue without it, and its next process joins them. */
static void end_process(const struct pulse *p)
{
    log_error("pulse", "its exchange hangs since a worker died: this process ends", "rank=%d",
              p->from.rank);
    raise(SIGKILL);
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
        if (hangs(p)) {
            end_process(p);
        }
        int rc = send_all(p, beats);
        beat_at = rc >= 0 && beats ? now + beat_seconds : beat_at;
        if (away != (rc < 0)) {
            away = rc < 0;
            log_write(away ? LOG_WARN : LOG_INFO, "pulse",
                      away ? "the store is away, training continues" : "the store is back",
                      "rank=%d", p->from.rank);
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
    json_decref(p->doors);
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
    clock_cond_init(&p->wake);
    staleness_init(&p->staleness);
    snprintf(p->from.job, sizeof(p->from.job), "%s", c->job);
    snprintf(p->node, sizeof(p->node), "%s", c->node);
    p->from.rank = c->rank;
    p->from.attempt = c->attempt;
    p->workers = c->workers;
    p->first_version = c->first_version;
    p->reads_control = c->reads_control;
    p->reads_each_turn = c->reads_each_turn;
    p->comm_hangs = c->comm_hangs;
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

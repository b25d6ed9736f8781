/* The monitor of one attempt: opening, rows, heartbeats, minibatches (see monitor.h). Facts are in monitor_facts.c, documents
 * for people in monitor_live.c, deadlines in monitor_alive.c, logs in monitor_logs.c.
 *
 * What a newcomer would get wrong: accounting never depends on rows (they may be dropped); samples, updates and staleness come
 * from the cumulative counters in the heartbeats. Rows feed the charts, the loss and the balancer.
 */
#include "coordinator/monitor_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

enum { READ_ENTRIES = 200, EVENT_POINTS = 50 };
static const double flush_seconds = 1.0, profile_seconds_between = 10.0;

/* ---- opening ------------------------------------------------------------------------------------------------ */

static void copy_text(char *out, size_t bytes, const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    snprintf(out, bytes, "%s", text ? text : "");
}

static void open_ranks(struct monitor *m, const json_t *plan)
{
    for (int r = 0; r < m->workers + m->servers; r++) {
        struct rank_watch *w = &m->ranks[r];
        const json_t *from = json_array_get(json_object_get(plan, "workers"), (size_t)r);
        copy_text(w->node, sizeof w->node, from, "node");
        copy_text(w->device, sizeof w->device, from, "device");
        w->slowdown = from ? json_number_value(json_object_get(from, "slowdown")) : 1;
        if (!from) {
            snprintf(w->node, sizeof w->node, "%s", r == m->workers ? "keeper" : "server");
        }
        snprintf(w->at, sizeof w->at, "0-0");
        staleness_init(&w->staleness);
        thin_reset(&w->points, EVENT_POINTS / m->workers > 0 ? EVENT_POINTS / m->workers : 1);
        if (r < m->workers) {
            m->names[r] = w->node;
            w->batch = (int)json_integer_value(json_array_get(json_object_get(json_object_get(plan, "first"), "sizes"), (size_t)r));
        }
    }
}

/* Every worker is the same kind of device, or multiples of 4 do. */
static int quantum_of(const struct monitor *m)
{
    for (int r = 0; r < m->workers; r++) {
        if (strncmp(m->ranks[r].device, "cuda", 4) != 0) {
            return 4;
        }
    }
    return 8;
}

static int open_balancer(struct monitor *m, const json_t *plan, struct err *e)
{
    const json_t *first = json_object_get(plan, "first");
    struct profile **profiles = calloc((size_t)m->workers, sizeof *profiles);
    for (int r = 0; profiles && r < m->workers; r++) {
        json_t *j = store_profile_get(m->store, m->ranks[r].node, m->nethash, NULL);
        struct profile *p = j ? calloc(1, sizeof *p) : NULL;
        if (p && profile_read(p, j) >= 0 && json_number_value(json_object_get(j, "slowdown")) == m->ranks[r].slowdown) {
            profiles[r] = p;
        } else {
            free(p);
        }
        json_decref(j);
    }
    int rc = profiles ? balancer_init(&m->balancer, &m->spec->batching, m->workers, quantum_of(m), (const struct profile *const *)profiles,
                                      m->names, e)
                      : err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
    for (int r = 0; profiles && r < m->workers; r++) {
        free(profiles[r]);
    }
    free(profiles);
    if (rc < 0) {
        return rc;
    }
    m->balancer.current.version = (int)json_integer_value(json_object_get(first, "version"));
    for (int r = 0; r < m->workers; r++) {
        m->balancer.current.sizes[r] = m->ranks[r].batch;
    }
    m->may_balance = m->spec->batching.policy == BATCH_DYNAMIC;
    return 0;
}

/* An adopted attempt may have had other minibatches since: control says which. */
static void adopt_control(struct monitor *m)
{
    json_t *control = store_doc_get(m->store, m->job, "control", NULL);
    const json_t *sizes = json_object_get(control, "sizes");
    if (json_array_size(sizes) == (size_t)m->workers) {
        m->balancer.current.version = (int)json_integer_value(json_object_get(control, "version"));
        for (int r = 0; r < m->workers; r++) {
            m->balancer.current.sizes[r] = (int)json_integer_value(json_array_get(sizes, (size_t)r));
        }
    }
    m->stop = json_is_true(json_object_get(control, "stop"));
    m->pause = json_is_true(json_object_get(control, "pause"));
    json_decref(control);
}

static int read_rows(struct monitor *m, struct err *e);

struct monitor *monitor_open(const struct monitor_config *config, struct err *e)
{
    const json_t *plan = config->plan;
    struct monitor *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
        return NULL;
    }
    m->store = config->store;
    m->spec = config->spec;
    m->launched_at = config->now;
    m->grace_until = config->adopted ? config->now + 10 : 0;
    m->suspect_since = -1;
    m->slow_phase_at = config->now;
    m->attempt = (int)json_integer_value(json_object_get(plan, "attempt"));
    m->workers = (int)json_array_size(json_object_get(plan, "workers"));
    m->servers = (int)json_integer_value(json_object_get(plan, "servers"));
    copy_text(m->job, sizeof m->job, plan, "job");
    copy_text(m->job_dir, sizeof m->job_dir, plan, "job_dir");
    snprintf(m->host, sizeof m->host, "%s", config->host);
    snprintf(m->data_dir, sizeof m->data_dir, "%s", config->data_dir);
    network_hash(&m->spec->network, m->nethash);
    m->ranks = calloc((size_t)(m->workers + m->servers) + 1, sizeof *m->ranks);
    m->names = calloc((size_t)m->workers + 1, sizeof *m->names);
    if (!m->ranks || !m->names || m->workers < 1 || !recent_init(&m->recent, m->workers)) {
        err_set(e, ERR_MEMORY, "cannot open the monitor of job '%s': memory ran out", m->job);
        monitor_close(m);
        return NULL;
    }
    open_ranks(m, plan);
    m->history = history_open(m->job_dir, m->workers, m->names, e);
    if (!m->history || open_balancer(m, plan, e) < 0 || monitor_load(m, config->adopted, e) < 0) {
        monitor_close(m);
        return NULL;
    }
    if (config->adopted) {
        adopt_control(m);
    } else if (read_rows(m, e) < 0 || monitor_read_facts(m, true, e) < 0 || monitor_save(m, e) < 0) {
        monitor_close(m);
        return NULL;
    } else {
        m->gate_open = m->attempt == 1;
    }
    return m;
}

void monitor_close(struct monitor *m)
{
    if (!m) {
        return;
    }
    if (m->history) {
        history_close(m->history);
    }
    if (m->balancer.profiles) {
        balancer_release(&m->balancer);
    }
    for (int r = 0; m->ranks && r < m->workers + m->servers; r++) {
        json_decref(m->ranks[r].beat);
        staleness_release(&m->ranks[r].staleness);
    }
    recent_release(&m->recent);
    json_decref(m->outcome);
    json_decref(m->evaluations);
    free(m->ranks);
    free(m->names);
    free(m);
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

struct reading {
    struct monitor *m;
    struct err *e;
    int rc;
};

static void see_row(struct monitor *m, const struct row *row)
{
    struct rank_watch *w = &m->ranks[row->rank];
    recent_add(&m->recent, row);
    m->step = row->step > m->step ? row->step : m->step;
    m->epoch = row->epoch > m->epoch ? row->epoch : m->epoch;
    w->rows++;
    w->batch = row->batch;
    thin_add(&w->points, row);
    if (row->batch > 0) {
        step_times_add(&w->times, row);
        balancer_observe(&m->balancer, row->rank, row->batch, row->compute_s);
    }
}

static void on_rows(void *ctx, const void *bytes, size_t n)
{
    struct reading *reading = ctx;
    struct monitor *m = reading->m;
    const char *p = bytes;
    for (size_t at = 0; at + sizeof(struct row) <= n && reading->rc >= 0; at += sizeof(struct row)) {
        struct row row;
        memcpy(&row, p + at, sizeof row);
        if (row.rank < 0 || row.rank >= m->workers) {
            continue;
        }
        reading->rc = history_append(m->history, &row, 1, reading->e);
        if (row.attempt == m->attempt) {
            see_row(m, &row);
        }
    }
}

static int read_rows(struct monitor *m, struct err *e)
{
    for (int r = 0; r < m->workers + m->servers; r++) {
        struct reading reading = {m, e, 0};
        int n;
        do {
            n = store_rows_read(m->store, m->job, r, m->ranks[r].at, READ_ENTRIES, on_rows, &reading, e);
            if (n < 0 || reading.rc < 0) {
                return n < 0 ? n : reading.rc;
            }
            m->ranks[r].untrimmed |= n > 0;
        } while (n == READ_ENTRIES);
    }
    return 0;
}

/* Rows leave the store only after they are on disk, and after their place was written down. */
static int flush_rows(struct monitor *m, struct err *e)
{
    int rc = history_flush(m->history, e);
    if (rc >= 0) {
        rc = monitor_save(m, e);
    }
    for (int r = 0; rc >= 0 && r < m->workers + m->servers; r++) {
        if (m->ranks[r].untrimmed) {
            rc = store_rows_trim(m->store, m->job, r, m->ranks[r].at, e);
            m->ranks[r].untrimmed = rc < 0;
        }
    }
    return rc;
}

/* ---- heartbeats --------------------------------------------------------------------------------------------- */

static void see_beat(struct monitor *m, int r, json_t *beat)
{
    struct rank_watch *w = &m->ranks[r];
    json_decref(w->beat);
    w->beat = json_incref(beat);
    int64_t step = json_integer_value(json_object_get(beat, "step"));
    double epoch = json_number_value(json_object_get(beat, "epoch"));
    m->step = step > m->step ? step : m->step;
    m->epoch = epoch > m->epoch ? epoch : m->epoch;
    w->samples = json_integer_value(json_object_get(beat, "samples"));
    w->updates = json_integer_value(json_object_get(beat, "updates"));
    const json_t *counters = json_object_get(beat, "staleness");
    if (json_is_object(counters)) {
        struct staleness fresh;
        staleness_init(&fresh);
        if (staleness_read(&fresh, counters) >= 0) {
            staleness_release(&w->staleness);
            w->staleness = fresh;
        } else {
            staleness_release(&fresh);
        }
    }
}

static int read_beats(struct monitor *m, struct err *e)
{
    json_t *beats = store_beats(m->store, m->job, e);
    if (!beats) {
        return -(e && e->code ? (int)e->code : ERR_UNAVAILABLE);
    }
    m->dropped = 0;
    for (int r = 0; r < m->workers + m->servers; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", r);
        json_t *beat = json_object_get(beats, key);
        if (beat && json_integer_value(json_object_get(beat, "attempt")) == m->attempt) {
            see_beat(m, r, beat);
        }
        m->dropped += json_integer_value(json_object_get(m->ranks[r].beat, "rows_dropped"));
    }
    json_decref(beats);
    return 0;
}

/* Opens the gate of a restarted attempt that found no checkpoint: its keeper serves, and no fact "restored" came before that. A fact and
 * a heartbeat made in the same turn may pass each other, so a second heartbeat is waited for. */
static int watch_gate(struct monitor *m, struct err *e)
{
    const json_t *beat = m->ranks[m->workers].beat;
    const char *phase = json_string_value(json_object_get(beat, "phase"));
    int64_t at = json_integer_value(json_object_get(beat, "at"));
    if (m->gate_open || !phase || strcmp(phase, "loading") == 0) {
        return 0;
    }
    if (m->keeper_seen_at == 0) {
        m->keeper_seen_at = at;
    }
    if (at == m->keeper_seen_at && !m->outcome) {
        return 0;
    }
    int rc = monitor_read_facts(m, false, e);
    if (rc >= 0 && !m->gate_open) {
        rc = history_supersede(m->history, 0, e);
        m->gate_open = rc >= 0;
    }
    return rc;
}

/* ---- minibatches, profiles ---------------------------------------------------------------------------------- */

static int write_control(struct monitor *m, struct err *e)
{
    json_t *sizes = json_array();
    for (int r = 0; r < m->workers; r++) {
        json_array_append_new(sizes, json_integer(m->balancer.current.sizes[r]));
    }
    json_t *control = json_pack("{s:i, s:o, s:b, s:b, s:b}", "version", m->balancer.current.version, "sizes", sizes, "stop", m->stop, "pause",
                                m->pause, "checkpoint", 0);
    int rc = store_doc_set(m->store, m->job, "control", control, e);
    json_decref(control);
    return rc;
}

static int balance(struct monitor *m, struct err *e)
{
    if (!m->may_balance || m->stop || m->pause || m->outcome || !balancer_decide(&m->balancer, m->step)) {
        return 0;
    }
    char when[32], quoted[300];
    const struct assignment *a = &m->balancer.current;
    json_t *j = assignment_json(a, m->names, clock_format(when, clock_wall_ms()));
    int rc = write_control(m, e); /* the workers first: it is in force whether or not people can read about it */
    if (rc >= 0) {
        rc = store_assignment_add(m->store, m->job, j, e);
    }
    if (rc >= 0) {
        rc = store_event(m->store, m->job, "assignment", j, e);
    }
    log_info("monitor", "new minibatches", "job=%s version=%d step=%lld why=%s", m->job, a->version, (long long)a->step,
             log_quote(quoted, sizeof quoted, a->reason));
    json_decref(j);
    return rc;
}

static int keep_profiles(struct monitor *m, struct err *e)
{
    int rc = 0;
    for (int r = 0; rc >= 0 && r < m->workers; r++) {
        const struct profile *p = &m->balancer.profiles[r];
        if (p->count < 10 || m->ranks[r].rows == 0) {
            continue;
        }
        json_t *j = profile_json(p);
        json_object_set_new(j, "slowdown", json_real(m->ranks[r].slowdown));
        json_object_set_new(j, "device", json_string(m->ranks[r].device));
        rc = store_profile_put(m->store, m->ranks[r].node, m->nethash, j, e);
        json_decref(j);
    }
    return rc;
}

/* ---- the turn ----------------------------------------------------------------------------------------------- */

static bool due(double *last, double now, double every)
{
    if (now - *last < every) {
        return false;
    }
    *last = now;
    return true;
}

static int read_all(struct monitor *m, struct err *e)
{
    int rc = monitor_read_facts(m, false, e);
    if (rc >= 0) {
        rc = read_beats(m, e);
    }
    if (rc >= 0) {
        rc = watch_gate(m, e);
    }
    return rc >= 0 && m->gate_open ? read_rows(m, e) : rc;
}

int monitor_tick(struct monitor *m, double now, struct err *e)
{
    int rc = read_all(m, e);
    if (rc >= 0) {
        rc = balance(m, e);
    }
    if (rc >= 0 && due(&m->flush_at, now, flush_seconds)) {
        rc = flush_rows(m, e);
        monitor_read_logs(m);
    }
    if (rc >= 0 && due(&m->profile_at, now, profile_seconds_between)) {
        rc = keep_profiles(m, e);
    }
    return rc >= 0 ? monitor_publish(m, now, e) : rc;
}

int monitor_finish(struct monitor *m, double now, bool finished, struct err *e)
{
    int rc = read_all(m, e);
    if (rc >= 0 && !m->gate_open) { /* it ended before anybody knew: its rows, if any, stand where they are */
        rc = read_rows(m, e);
    }
    if (rc >= 0) {
        rc = flush_rows(m, e);
    }
    if (rc >= 0) {
        rc = keep_profiles(m, e);
    }
    monitor_read_logs(m);
    m->finished = finished;
    m->live_at = m->detail_at = -1e9;
    return rc >= 0 ? monitor_publish(m, now, e) : rc;
}

int monitor_ask(struct monitor *m, bool stop, bool pause, struct err *e)
{
    if (m->stop == stop && m->pause == pause) {
        return 0;
    }
    bool old_stop = m->stop, old_pause = m->pause;
    m->stop = stop;
    m->pause = pause;
    int rc = write_control(m, e);
    if (rc < 0) {
        m->stop = old_stop;
        m->pause = old_pause;
    }
    return rc;
}

bool monitor_stepped(const struct monitor *m)
{
    for (int r = 0; r < m->workers; r++) {
        if (m->ranks[r].rows == 0) {
            return false;
        }
    }
    return true;
}

double monitor_seconds(const struct monitor *m)
{
    return m->recent.time;
}

const json_t *monitor_outcome(const struct monitor *m)
{
    return m->outcome;
}

void monitor_grace(struct monitor *m, double until)
{
    m->grace_until = until > m->grace_until ? until : m->grace_until;
    m->suspect_since = -1;
}

const char *monitor_node(const struct monitor *m, int rank)
{
    return rank >= 0 && rank < m->workers + m->servers ? m->ranks[rank].node : "";
}

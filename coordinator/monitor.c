/* The monitor of one attempt: rows, heartbeats, and the turn (see monitor.h). Opening is in
 * monitor_open.c, facts in monitor_facts.c, minibatches in monitor_assign.c, documents for people
 * in monitor_live.c, deadlines in monitor_alive.c, logs in monitor_logs.c.
 *
 *   store ─► at ─► history's buffer ─► disk ─► safe ─► trimmed from the store     a rank's rows, and the two places in its stream
 *
 * What a newcomer would get wrong: accounting never depends on rows (they may be dropped); samples,
 * updates and staleness come from the cumulative counters in the heartbeats. Rows feed the charts,
 * the loss and the balancer. And only `safe` may be remembered: rows between it and `at` are in
 * this process's memory alone, and whoever comes after us must read them again.
 */
#include "coordinator/monitor_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_ENTRIES = 200, READS_PER_TURN = 5, READS_ALL = 1 << 30 };
static const double show_seconds = 1.0, flush_seconds = 5.0, profile_seconds_between = 10.0,
                    beats_seconds = 0.4;

/* ---- rows ------------------------------------------------------------------------------------ */

static void see_row(struct monitor *m, const struct row *row)
{
    struct rank_watch *w = &m->ranks[row->rank];
    if (row->step <= w->last_step && row->local_step <= w->last_local) {
        return; /* read again because the disk had refused a row beside it */
    }
    w->last_step = row->step;
    w->last_local = row->local_step;
    recent_add(&m->recent, row);
    m->step = row->step > m->step ? row->step : m->step;
    m->epoch = row->epoch > m->epoch ? row->epoch : m->epoch;
    w->rows++;
    w->batch = row->batch;
    thin_add(&w->points, row);
    if (row->batch > 0) {
        step_times_add(&w->times, row);
        balancer_observe(&m->balancer, row->rank, row->batch, row->compute_seconds);
    }
}

static int on_rows(void *ctx, int rank, const struct row *rows, int n, struct err *e)
{
    struct monitor *m = ctx;
    int rc = 0;
    (void)rank; /* the rows say */
    for (int i = 0; i < n && rc >= 0; i++) {
        if (rows[i].rank < 0 || rows[i].rank >= m->workers) {
            continue;
        }
        rc = history_append(m->history, &rows[i], 1, e);
        if (rc >= 0 && rows[i].attempt == m->attempt) {
            see_row(m, &rows[i]);
        }
    }
    return rc;
}

/* `most` reads, so that a long backlog does not make one turn long: other jobs, and who cancels
 * this one, wait for it. With `facts`, no rows are read while a fact waits, and *facts is set. */
static int read_rows(struct monitor *m, int most, bool *facts, struct err *e)
{
    int n = READ_ENTRIES, ranks = m->workers + m->servers;
    const char *facts_at = facts ? m->facts_at : NULL;
    for (int reads = 0; n == READ_ENTRIES && reads < most; reads++) {
        n = store_rows_read(m->store, m->job, m->tails, ranks, READ_ENTRIES, facts_at, facts,
                            on_rows, m, e);
    }
    return n < 0 ? n : 0;
}

int monitor_read_rows(struct monitor *m, struct err *e)
{
    return read_rows(m, READS_ALL, NULL, e);
}

/* Rows leave the store only after they are on disk, and after their place was written down. */
static int flush_rows(struct monitor *m, struct err *e)
{
    int rc = history_flush(m->history, e), n = 0, ranks = m->workers + m->servers;
    struct store_tail *safe = calloc((size_t)ranks, sizeof *safe);
    for (int r = 0; safe && rc >= 0 && r < ranks; r++) {
        struct rank_watch *w = &m->ranks[r];
        w->untrimmed |= strcmp(w->safe, w->at) != 0;
        memcpy(w->safe, w->at, sizeof w->safe);
        if (w->untrimmed) {
            safe[n++] = (struct store_tail){r, w->safe};
        }
    }
    if (!safe) {
        return err_set(e, ERR_MEMORY, "cannot trim the rows of job '%s': memory ran out", m->job);
    }
    rc = rc < 0 ? rc : monitor_save(m, e);
    if (rc >= 0 && n > 0) {
        rc = store_rows_trim(m->store, m->job, safe, n, e);
    }
    for (int i = 0; rc >= 0 && i < n; i++) {
        m->ranks[safe[i].rank].untrimmed = false;
    }
    free(safe);
    return rc;
}

/* ---- heartbeats ------------------------------------------------------------------------------ */

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

/* Opens the gate of a restarted attempt that found no checkpoint: its keeper serves, and no fact
 * "restored" came before that. A fact and a heartbeat made in the same turn may pass each other, so
 * a second heartbeat is waited for. */
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

/* Readers of the history, and of the logs, see what has come; now and then it is synced, and leaves
 * the store. */
static int keep_rows(struct monitor *m, double now, struct err *e)
{
    long logs = m->log_offset;
    int rc = monitor_due(&m->flush_at, now, flush_seconds) ? flush_rows(m, e)
                                                           : history_show(m->history, e);
    monitor_read_logs(m, false);
    return rc >= 0 && m->log_offset != logs
               ? monitor_save(m, e)
               : rc; /* so that whoever comes after us does not tell them apart again */
}

/* ---- the turn -------------------------------------------------------------------------------- */

bool monitor_due(double *last, double now, double every)
{
    if (now - *last < every) {
        return false;
    }
    *last = now;
    return true;
}

/* A fact is rare: rows tell on the way whether one waits. Then it goes first, and they are read
 * after it. */
static int read_all(struct monitor *m, double now, struct err *e)
{
    bool facts = !m->gate_open;
    int rc = monitor_due(&m->beats_at, now, beats_seconds) ? read_beats(m, e) : 0;
    if (rc >= 0 && m->gate_open) {
        rc = read_rows(m, READS_PER_TURN, &facts, e);
    }
    if (rc < 0 || !facts) {
        return rc;
    }
    rc = monitor_read_facts(m, false, e);
    rc = rc < 0 ? rc : watch_gate(m, e);
    return rc >= 0 && m->gate_open ? read_rows(m, READS_PER_TURN, NULL, e) : rc;
}

/* A disk that refuses the history stops neither the minibatches nor what people see: rows wait in
 * the store. */
int monitor_tick(struct monitor *m, double now, struct err *e)
{
    struct err disk = {0};
    int rc = read_all(m, now, e);
    if (rc == -ERR_IO) {
        disk = *e;
        rc = 0;
    }
    if (rc >= 0) {
        rc = monitor_balance(m, e);
    }
    if (rc >= 0 && monitor_due(&m->show_at, now, show_seconds)) {
        rc = keep_rows(m, now, e);
    }
    if (rc == -ERR_IO) {
        disk = *e;
        rc = 0;
    }
    if (rc >= 0 && monitor_due(&m->profile_at, now, profile_seconds_between)) {
        rc = monitor_keep_profiles(m, e);
    }
    rc = rc >= 0 ? monitor_publish(m, now, e) : rc;
    if (rc >= 0 && disk.code) {
        *e = disk;
        rc = -(int)disk.code;
    }
    return rc;
}

int monitor_finish(struct monitor *m, double now, bool finished, struct err *e)
{
    m->beats_at = -1e9;
    int rc = read_all(m, now, e);
    if (rc >= 0) { /* all of them; where the gate is closed it ended before anybody knew: its rows,
                      if any, stand where they are */
        rc = monitor_read_rows(m, e);
    }
    if (rc >= 0) {
        rc = flush_rows(m, e);
    }
    if (rc >= 0) {
        rc = monitor_keep_profiles(m, e);
    }
    monitor_read_logs(m, true);
    m->finished = finished;
    m->live_at = m->detail_at = -1e9;
    return rc >= 0 ? monitor_publish(m, now, e) : rc;
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

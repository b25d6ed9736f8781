/* The monitor's turn (see monitor.h): facts, rows and heartbeats are read, minibatches decided,
 * documents written. parts.h shows the parts.
 *
 * If the disk refuses the history, minibatches and the published figures go on, and rows wait in
 * the store.
 */
#include "coordinator/monitor/parts.h"

enum { ROWS_PER_TURN = 10000, FACT_READS_PER_TURN = 5 };
static const double show_seconds = 1.0, flush_seconds = 5.0, profile_seconds_between = 10.0,
                    beats_seconds = 0.4, guard_seconds = 5; /* a guard reads the control document
                                                               every second */

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows are trimmed from the store only after they are on disk and the bookmark past them is saved.
 */
static int flush_rows(struct monitor *m, struct err *e)
{
    int rc = feed_settle(&m->feed, e);
    if (rc < 0 || (rc = monitor_save(m, e)) < 0 || m->early.count > 0) {
        return rc;
    }
    return feed_trim(&m->feed, e);
}

/* Makes new rows and log lines readable; at intervals it syncs the history and trims the store. */
static int keep_rows(struct monitor *m, double now, struct err *e)
{
    long logs = m->logs.offset;
    int rc = measure_due(&m->flush_at, now, flush_seconds) ? flush_rows(m, e)
                                                           : history_show(m->feed.history, e);
    logs_read(&m->logs, false);
    return rc >= 0 && m->logs.offset != logs
               ? monitor_save(m, e)
               : rc; /* the bookmark is saved so that the next coordinator does not split the same
                        lines again */
}

/* ---- the turn -------------------------------------------------------------------------------- */

static int read_rows(struct monitor *m, bool *facts, struct err *e)
{
    int rc = feed_read(&m->feed, ROWS_PER_TURN, facts, e);
    m->behind = rc == FEED_MAY_WAIT;
    return rc < 0 ? rc : 0;
}

/* Limits the rows and facts of a turn, since other jobs and a user who cancels this one wait for
 * its end. Backlogs may be long: an evaluation after each of many short epochs is a fact each.
 * Reading rows also tells whether a fact waits; then all facts are read first, and the rows after
 * them. */
static int read_all(struct monitor *m, double now, int fact_reads, struct err *e)
{
    bool facts = !m->gate_open;
    int rc = measure_due(&m->beats_at, now, beats_seconds)
                 ? ranks_read_beats(&m->ranks, m->store, e)
                 : 0;
    orders_see_quotas(&m->orders);
    orders_see_doors(&m->orders);
    if (rc >= 0 && m->gate_open) {
        rc = read_rows(m, &facts, e);
    }
    if (rc < 0 || !facts) {
        return rc;
    }
    rc = monitor_read_facts(m, false, fact_reads, e);
    m->behind |= rc == FACTS_MAY_WAIT;
    if (rc != FACTS_NONE_WAIT || (rc = monitor_watch_gate(m, e)) < 0) {
        return rc < 0 ? rc : 0;
    }
    return m->gate_open ? read_rows(m, NULL, e) : 0;
}

static int publish(struct monitor *m, double now, struct err *e)
{
    struct publisher_view view = {.store = m->store,
                                  .host = m->host,
                                  .spec = m->spec,
                                  .ranks = &m->ranks,
                                  .orders = &m->orders,
                                  .results = &m->results,
                                  .program = m->program.global_batch > 0 ? &m->program : NULL,
                                  .training_samples = m->training_samples,
                                  .planned = monitor_planned_samples(m),
                                  .rows_missing = history_missing(m->feed.history),
                                  .logged = history_logged_newest(m->feed.history)};
    int rc = publisher_tick(&m->publisher, &view, now, e);
    json_decref(view.logged);
    return rc;
}

/* Keeps a failure of the disk for the end of the turn. */
static int put_off(int rc, struct err *disk, struct err *e)
{
    if (rc == -ERR_IO && e) {
        *disk = *e;
        return 0;
    }
    return rc;
}

/* Reads a turn's worth of what earlier attempts left in the store: all rows first, then facts. */
static int take_over(struct monitor *m, double now, struct err *e)
{
    int rc = feed_read(&m->feed, ROWS_PER_TURN, NULL, e);
    if (rc == FEED_NONE_WAIT) {
        rc = monitor_read_facts(m, true, FACT_READS_PER_TURN, e);
    }
    m->behind = rc == FEED_MAY_WAIT || rc == FACTS_MAY_WAIT;
    if (m->behind) {
        return measure_due(&m->show_at, now, show_seconds) ? keep_rows(m, now, e) : 0;
    }
    if (rc < 0 || (rc = monitor_save(m, e)) < 0) {
        return rc;
    }
    m->gate_open = m->ours.attempt == 1;
    feed_count_from(&m->feed, m->ours.attempt);
    m->takes_over = false;
    return 0;
}

int monitor_tick(struct monitor *m, double now, struct err *e)
{
    struct err disk = {0};
    if (m->takes_over) {
        return take_over(m, now, e);
    }
    int rc = put_off(read_all(m, now, FACT_READS_PER_TURN, e), &disk, e);
    losses_decide(m, now);
    returns_decide(m, now);
    if (rc < 0 || (rc = orders_balance(&m->orders, m->results.has_ended, e)) < 0) {
        return rc;
    }
    if (measure_due(&m->show_at, now, show_seconds)) {
        rc = put_off(keep_rows(m, now, e), &disk, e);
    }
    if (rc >= 0 && measure_due(&m->profile_at, now, profile_seconds_between)) {
        rc = orders_keep_profiles(&m->orders, e);
    }
    if (rc < 0 || (rc = publish(m, now, e)) < 0) {
        return rc;
    }
    if (disk.code) {
        *e = disk;
        return -(int)disk.code;
    }
    return rc;
}

int monitor_finish(struct monitor *m, double now, struct err *e)
{
    m->beats_at = -1e9;
    int rc = read_all(m, now, FACTS_ALL, e);
    /* also after an attempt that ended before its gate opened, which has made few steps, if any */
    if (rc >= 0) {
        rc = feed_read(&m->feed, FEED_ALL, NULL, e);
    }
    if (m->results.has_ended && m->results.ended.outcome == OUTCOME_FINISHED) {
        ranks_credit(&m->ranks);
    }
    if (rc >= 0) {
        rc = flush_rows(m, e);
    }
    if (rc >= 0) {
        orders_settle(&m->orders);
        rc = orders_keep_profiles(&m->orders, e);
    }
    logs_read(&m->logs, true);
    publisher_finish(&m->publisher, monitor_finished(m));
    return rc >= 0 ? publish(m, now, e) : rc;
}

/* ---- what others ask ------------------------------------------------------------------------- */

bool monitor_behind(const struct monitor *m)
{
    return m->behind;
}

bool monitor_ready(const struct monitor *m)
{
    return !m->takes_over;
}

bool monitor_stepped(const struct monitor *m)
{
    return ranks_stepped(&m->ranks);
}

bool monitor_in_long_step(const struct monitor *m, double ago, double patience)
{
    return ranks_in_long_step(&m->ranks, ago, patience);
}

int64_t monitor_step(const struct monitor *m)
{
    return m->ranks.step;
}

double monitor_seconds(const struct monitor *m)
{
    return m->ranks.recent.time;
}

const struct ended *monitor_outcome(const struct monitor *m)
{
    return m->results.has_ended ? &m->results.ended : NULL;
}

void monitor_samples(const struct monitor *m, int64_t *counted, int64_t *planned)
{
    *counted = ranks_samples(&m->ranks);
    *planned = monitor_planned_samples(m);
}

bool monitor_finished(const struct monitor *m)
{
    int64_t counted, planned;
    monitor_samples(m, &counted, &planned);
    return m->results.has_ended && m->results.ended.outcome == OUTCOME_FINISHED && planned > 0 &&
           counted >= planned;
}

bool monitor_lost(struct monitor *m, double now, struct failure *out)
{
    if (m->results.has_ended) {
        watchdog_calm(&m->watchdog);
        return false;
    }
    if (m->needed_lost) {
        *out = m->needed;
        return true;
    }
    bool lost = watchdog_lost(&m->watchdog, &m->ranks, m->spec, now, out);
    if (lost && losses_end_silent(m, out->rank)) {
        watchdog_grace(&m->watchdog, now + guard_seconds);
        return false;
    }
    return lost;
}

bool monitor_lost_some(const struct monitor *m)
{
    return ranks_ever_left(&m->ranks);
}

bool monitor_is_lost(const struct monitor *m, int rank)
{
    return m->ranks.all[rank].lost;
}

bool monitor_was_killed(const struct monitor *m, int rank)
{
    return rank >= 0 && rank < m->ranks.workers && fact_tells_kill(m->ranks.all[rank].how);
}

bool monitor_ended_itself(const struct monitor *m, int rank)
{
    return rank >= 0 && rank < m->ranks.workers && m->ranks.all[rank].how[0] &&
           !monitor_was_killed(m, rank);
}

bool monitor_died_in_start(const struct monitor *m, int rank)
{
    return m->outlives_worker && rank >= 0 && rank < m->ranks.workers && !ranks_stepped(&m->ranks);
}

bool monitor_all_done(const struct monitor *m)
{
    return ranks_done(&m->ranks);
}

void monitor_grace(struct monitor *m, double until)
{
    watchdog_grace(&m->watchdog, until);
}

int monitor_ask(struct monitor *m, bool stop, bool pause, struct err *e)
{
    return orders_ask(&m->orders, stop, pause, e);
}

const char *monitor_node(const struct monitor *m, int rank)
{
    return rank >= 0 && rank < ranks_count(&m->ranks) ? m->ranks.all[rank].node : "";
}

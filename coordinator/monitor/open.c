/* Opens and closes the monitor of one attempt (see monitor.h): from its plan, and from its bookmark
 * (bookmarks.c).
 */
#include "coordinator/monitor/parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "coordinator/launchers/launcher.h"

static const double adopted_grace = 10;

static void on_row(void *ctx, const struct row *row)
{
    struct monitor *m = ctx;
    if (row->attempt == m->ours.attempt && ranks_see_row(&m->ranks, row)) {
        orders_observe(&m->orders, row);
    }
}

static void on_dropped_rows(void *ctx, const struct sender *from, const char *why)
{
    struct monitor *m = ctx;
    ranks_drop(&m->ranks, DROPPED_ROWS, from, why);
}

static int open_parts(struct monitor *m, const struct monitor_config *config, struct err *e)
{
    const struct plan *plan = config->plan;
    m->seals = seals_open(m->job_dir, e);
    if (!m->seals) {
        return -ERR_MEMORY;
    }
    int rc = ranks_open(&m->ranks, plan, m->seals, e);
    if (rc < 0) {
        return rc;
    }
    struct feed_config feed = {.store = m->store,
                               .job = m->ours.job,
                               .job_dir = m->job_dir,
                               .workers = m->ranks.workers,
                               .ranks = ranks_count(&m->ranks),
                               .attempt = m->ours.attempt,
                               .seals = m->seals,
                               .names = m->ranks.names,
                               .on_row = on_row,
                               .on_dropped = on_dropped_rows,
                               .ctx = m};
    if ((rc = feed_open(&m->feed, &feed, e)) < 0 ||
        (rc = orders_open(&m->orders, m->store, &m->ranks, m->spec, plan, e)) < 0) {
        return rc;
    }
    results_open(&m->results, m->store, m->ours.job);
    watchdog_init(&m->watchdog, config->now, config->adopted ? adopted_grace : 0);
    m->outlives_worker = plan_outlives_worker(plan, m->spec);
    m->takes_back = plan_takes_back(plan, m->spec);
    m->logs.job_dir = m->job_dir;
    m->logs.ranks = ranks_count(&m->ranks);
    attempt_output(m->logs.output, config->data_dir, m->ours.job, m->ours.attempt);
    return 0;
}

struct monitor *monitor_open(const struct monitor_config *config, struct err *e)
{
    struct monitor *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
        return NULL;
    }
    m->store = config->store;
    m->spec = config->spec;
    m->ours = config->plan->from;
    snprintf(m->job_dir, sizeof m->job_dir, "%s", config->plan->job_dir);
    snprintf(m->host, sizeof m->host, "%s", config->host);
    int rc = open_parts(m, config, e);
    if (rc >= 0) {
        rc = monitor_load(m, config->adopted, e);
    }
    if (rc >= 0 && config->adopted) {
        orders_adopt(&m->orders, &m->ranks);
        monitor_take_batch(m);
        orders_take_samples(&m->orders, m->training_samples, true);
    } else if (rc >= 0) {
        m->takes_over = true;
        m->publisher.before = store_doc_get(m->store, m->ours.job, "live", NULL);
        rc = monitor_tick(m, config->now, e);
    }
    if (rc < 0) {
        monitor_close(m);
        return NULL;
    }
    return m;
}

void monitor_close(struct monitor *m)
{
    if (!m) {
        return;
    }
    feed_close(&m->feed);
    orders_close(&m->orders);
    results_close(&m->results);
    publisher_close(&m->publisher);
    evaluations_release(&m->early);
    while (m->n_early_norms > 0) {
        norms_release(&m->early_norms[--m->n_early_norms]);
    }
    while (m->n_early_logged > 0) {
        logged_release(&m->early_logged[--m->n_early_logged]);
    }
    ranks_close(&m->ranks);
    seals_close(m->seals);
    free(m);
}

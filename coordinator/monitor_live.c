/* What people see of a running attempt: the live document (DESIGN.md section 9), some twice a
 * second, and the events that carry it, thinned rows and staleness to the browsers. Every number is
 * defined in SEMANTICS.md; nothing is decided here.
 */
#include "coordinator/monitor_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double live_seconds = 0.4, detail_seconds = 1.0, speed_seconds = 5.0;

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* ---- staleness ------------------------------------------------------------------------------- */

static json_t *job_staleness(const struct monitor *m, bool recent)
{
    const struct staleness **all = calloc((size_t)m->workers, sizeof *all);
    for (int r = 0; all && r < m->workers; r++) {
        all[r] = &m->ranks[r].staleness;
    }
    json_t *j = all ? staleness_job_json(all, m->workers, recent) : NULL;
    free(all);
    return j ? j : json_object();
}

json_t *monitor_staleness_json(const struct monitor *m)
{
    json_t *nodes = json_array();
    for (int r = 0; r < m->workers; r++) {
        json_t *j = staleness_json(&m->ranks[r].staleness);
        if (!j) {
            continue;
        }
        json_t *node = json_pack("{s:s, s:i}", "node", m->ranks[r].node, "rank", r);
        json_object_update(node, j);
        json_decref(j);
        json_array_append_new(nodes, node);
    }
    return json_pack("{s:o}", "nodes", nodes);
}

/* ---- workers --------------------------------------------------------------------------------- */

static double beat_age(const json_t *beat)
{
    return json_number_value(json_object_get(beat, "age"));
}

static const char *state_of(const struct monitor *m, const struct rank_watch *w)
{
    const char *phase = json_string_value(json_object_get(w->beat, "phase"));
    if (m->finished) {
        return "done";
    }
    return !w->beat ? "starting" : beat_age(w->beat) > 3 ? "silent" : phase ? phase : "starting";
}

static json_t *worker_staleness(const struct staleness *s)
{
    json_t *all = staleness_json(s);
    json_t *j = json_pack("{s:O?, s:O?, s:O?}", "mean", json_object_get(all, "mean"), "p95",
                          json_object_get(all, "p95"), "max", json_object_get(all, "max"));
    json_decref(all);
    return j ? j : json_object();
}

static json_t *worker_json(const struct monitor *m, int r)
{
    const struct rank_watch *w = &m->ranks[r];
    int assigned = m->balancer.current.sizes[r];
    json_t *receiving = json_object_get(w->beat, "receiving");
    json_t *out =
        json_pack("{s:i, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:o, s:I, s:I, s:f, s:f, s:s}", "rank",
                  r, "node", w->node, "device", w->device, "batch",
                  assigned > 0 ? assigned : w->batch, "samples_per_second", w->times.per_second,
                  "compute_seconds", w->times.compute, "exchange_seconds", w->times.exchange,
                  "wait_seconds", w->times.wait, "staleness", worker_staleness(&w->staleness),
                  "samples", (json_int_t)w->samples, "updates", (json_int_t)w->updates, "slowdown",
                  w->slowdown, "heartbeat_age_seconds", beat_age(w->beat), "state", state_of(m, w));
    if (out && json_is_object(receiving) && !m->finished) {
        json_object_set(out, "receiving", receiving);
    }
    return out;
}

static json_t *server_json(const struct monitor *m, int r)
{
    const json_t *beat = m->ranks[r].beat;
    return json_pack("{s:i, s:s, s:I, s:f, s:f, s:s}", "rank", r, "host", m->host, "version",
                     json_integer_value(json_object_get(beat, "step")), "busy_fraction",
                     json_number_value(json_object_get(beat, "busy_fraction")),
                     "heartbeat_age_seconds", beat_age(beat), "state", state_of(m, &m->ranks[r]));
}

/* ---- the live document ----------------------------------------------------------------------- */

/* Where a job ends that has succeeded: after its epochs, or at the evaluation that reached its
 * target. */
static double end_epoch(const struct monitor *m)
{
    const json_t *last = json_array_get(m->evaluations, json_array_size(m->evaluations) - 1);
    double target = m->spec->target_accuracy,
           epoch = json_number_value(json_object_get(last, "epoch"));
    bool reached =
        last && target > 0 && json_number_value(json_object_get(last, "accuracy")) >= target;
    return reached && epoch < m->spec->epochs ? epoch : m->spec->epochs;
}

static json_t *progress_json(const struct monitor *m)
{
    double epochs = m->spec->epochs, epoch = m->finished         ? end_epoch(m)
                                             : m->epoch < epochs ? m->epoch
                                                                 : epochs;
    return json_pack("{s:f, s:f, s:I, s:I, s:f}", "epoch", epoch, "epochs", epochs, "step",
                     (json_int_t)m->step, "samples", (json_int_t)monitor_samples(m), "fraction",
                     m->finished  ? 1.0
                     : epochs > 0 ? epoch / epochs
                                  : 0.0);
}

static json_t *metrics_json(const struct monitor *m)
{
    const json_t *last = json_array_get(m->evaluations, json_array_size(m->evaluations) - 1);
    double speed = recent_speed(&m->recent, speed_seconds);
    json_t *loss = json_object_get(last, "loss"), *accuracy = json_object_get(last, "accuracy");
    return json_pack("{s:o, s:o, s:o, s:f, s:f}", "train_loss",
                     real_or_null(recent_loss(&m->recent)), "test_loss",
                     loss ? json_incref(loss) : json_null(), "test_accuracy",
                     accuracy ? json_incref(accuracy) : json_null(), "samples_per_second", speed,
                     "step_seconds", speed > 0 ? m->spec->batching.global_batch / speed : 0.0);
}

json_t *monitor_live_json(const struct monitor *m)
{
    json_t *workers = json_array(), *servers = json_array();
    for (int r = 0; r < m->workers; r++) {
        json_array_append_new(workers, worker_json(m, r));
    }
    for (int r = m->workers; r < m->workers + m->servers; r++) {
        json_array_append_new(servers, server_json(m, r));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:{s:i, s:i}, s:o, s:o, s:f, s:I}", "progress",
                     progress_json(m), "metrics", metrics_json(m), "staleness",
                     job_staleness(m, false), "staleness_recent", job_staleness(m, true),
                     "assignment", "version", m->balancer.current.version, "global_batch",
                     m->spec->batching.global_batch, "servers", servers, "workers", workers,
                     "seconds", m->recent.time, "rows_dropped",
                     (json_int_t)(m->dropped + history_missing(m->history)));
}

/* ---- events ---------------------------------------------------------------------------------- */

static json_t *point_json(const struct monitor *m, const struct row *row)
{
    json_t *point = row_json(row, ROW_EVENTS);
    json_object_set_new(point, "rank", json_integer(row->rank));
    json_object_set_new(point, "node", json_string(m->ranks[row->rank].node));
    return point;
}

static json_t *points_json(struct monitor *m)
{
    json_t *rows = json_array();
    for (int r = 0; r < m->workers; r++) {
        struct thinned *points = &m->ranks[r].points;
        for (int i = 0; i < points->count; i++) {
            json_array_append_new(rows, point_json(m, &points->rows[i]));
        }
        thin_reset(points, points->most);
    }
    if (json_array_size(rows) > 0) {
        return json_pack("{s:o, s:f}", "rows", rows, "samples", (double)monitor_samples(m));
    }
    json_decref(rows);
    return NULL;
}

int monitor_publish(struct monitor *m, double now, struct err *e)
{
    struct store_news news[3];
    json_t *points = points_json(m);
    int n = 0;
    if (monitor_due(&m->live_at, now, live_seconds)) {
        news[n++] = (struct store_news){"live", "live", monitor_live_json(m)};
    }
    if (points) {
        news[n++] = (struct store_news){NULL, "rows", points};
    }
    if (monitor_due(&m->detail_at, now, detail_seconds)) {
        news[n++] = (struct store_news){"detail:staleness", "staleness", monitor_staleness_json(m)};
    }
    int rc = n ? store_publish(m->store, m->job, news, n, e) : 0;
    for (int i = 0; i < n; i++) {
        json_decref((json_t *)news[i].body);
    }
    return rc;
}

/* See publisher.h. */
#include "coordinator/monitor/publisher.h"

#include <math.h>
#include <stdlib.h>

#include "job/documents/people/events.h"
#include "job/documents/people/live.h"
#include "job/documents/ranks/fact.h"

static const double live_seconds = 0.4, detail_seconds = 1.0, speed_seconds = 5.0,
                    silent_seconds = 3.0;

/* ---- workers and servers --------------------------------------------------------------------- */

/* A rank that is killed after its own end has done its part. A rank that fails comes to its end
 * too. */
static bool has_done(const struct rank *w)
{
    return w->heard && w->beat.phase == PHASE_DONE && fact_tells_kill(w->how);
}

static const char *state_of(const struct publisher *p, const struct rank *w)
{
    if (w->lost) {
        return has_done(w) ? phase_name(PHASE_DONE) : "left";
    }
    if (p->finished || p->ended) {
        return p->finished ? "done" : "stopped";
    }
    if (!w->heard) {
        return "starting";
    }
    return w->beat.age > silent_seconds ? "silent" : phase_name(w->beat.phase);
}

static struct live_worker worker_of(const struct publisher *p, const struct publisher_view *v,
                                    int r, int assigned)
{
    const struct rank *w = &v->ranks->all[r];
    double error;
    struct line fit = orders_line(v->orders, r, &error);
    return (struct live_worker){.rank = r,
                                .node = w->node,
                                .device = w->device,
                                .state = state_of(p, w),
                                .batch = assigned > 0 ? assigned
                                         : w->lost    ? 0
                                                      : w->batch,
                                .updates = w->beat.updates,
                                .samples = w->beat.samples,
                                .samples_per_second = w->times.per_second,
                                .load_seconds = w->times.load,
                                .compute_seconds = w->times.compute,
                                .exchange_seconds = w->times.exchange,
                                .wait_seconds = w->times.wait,
                                .staleness = &w->beat.staleness,
                                .slowdown = w->slowdown,
                                .fit = fit,
                                .fit_error = error,
                                .heartbeat_age_seconds = w->beat.age,
                                .received = w->beat.received,
                                .receives = p->finished ? 0 : w->beat.receives};
}

static struct live_server server_of(const struct publisher *p, const struct publisher_view *v,
                                    int r)
{
    const struct rank *w = &v->ranks->all[r];
    return (struct live_server){.rank = r,
                                .host = v->host,
                                .state = state_of(p, w),
                                .version = w->beat.step,
                                .busy_fraction = w->beat.busy_fraction,
                                .heartbeat_age_seconds = w->beat.age};
}

/* ---- the live document ----------------------------------------------------------------------- */

/* The job's epochs. A program's own number holds once it is reported. 0: not known yet. */
static double epochs_of(const struct publisher_view *v)
{
    return v->program ? v->program->epochs : v->spec->epochs_open ? 0 : v->spec->epochs;
}

/* Samples of a step, at most the training set's. */
static int64_t batch_of(const struct publisher_view *v)
{
    int64_t asked = v->program ? v->program->global_batch : v->spec->batching.global_batch,
            there = v->program ? 0 : v->training_samples;
    return there > 0 && there < asked ? there : asked;
}

/* The epoch at which a job that succeeded ended: its last one, where its program stopped, or that
 * of the evaluation which reached its target. */
static double end_epoch(const struct publisher_view *v)
{
    double epochs = epochs_of(v) > 0 ? epochs_of(v) : round(v->ranks->epoch);
    if (v->program) {
        double made = (double)ranks_samples(v->ranks) / (double)v->program->samples;
        epochs = epochs_of(v) > 0 && made > epochs ? epochs : made;
    }
    const struct evaluation *last = evaluations_last(&v->results->evaluations);
    double target = v->spec->target_accuracy;
    bool reached = last && target > 0 && last->accuracy >= target;
    return reached && last->epoch < epochs ? last->epoch : epochs;
}

/* The fraction of the job that is done. It is always computed from counters: at the end from the
 * planned samples, before from the epochs. */
static double fraction_of(const struct publisher *p, const struct publisher_view *v, double epoch)
{
    double epochs = epochs_of(v), samples = (double)ranks_samples(v->ranks),
           planned = (double)v->planned;
    if (p->finished && planned > 0) {
        return samples < planned ? samples / planned : 1.0;
    }
    return epochs > 0 ? epoch / epochs : 0.0;
}

static struct live_progress progress_of(const struct publisher *p, const struct publisher_view *v)
{
    double epochs = epochs_of(v), trained = v->ranks->epoch,
           so_far = epochs > 0 && trained > epochs ? epochs : trained,
           epoch = p->finished ? end_epoch(v) : so_far;
    return (struct live_progress){.epoch = epoch,
                                  .epochs = p->finished && epochs <= 0 ? epoch : epochs,
                                  .step = v->ranks->step,
                                  .samples = ranks_samples(v->ranks),
                                  .fraction = fraction_of(p, v, epoch)};
}

static struct live_metrics metrics_of(const struct publisher_view *v)
{
    const struct evaluation *last = evaluations_last(&v->results->evaluations);
    double speed = recent_speed(&v->ranks->recent, speed_seconds);
    return (struct live_metrics){.train_loss = recent_loss(&v->ranks->recent),
                                 .test_loss = last ? last->loss : NAN,
                                 .test_accuracy = last ? last->accuracy : NAN,
                                 .best_test_accuracy = evaluations_best(&v->results->evaluations),
                                 .samples_per_second = speed,
                                 .step_seconds = speed > 0 ? batch_of(v) / speed : 0.0};
}

/* Keeps the last attempt's progress until all ranks have stepped: without it progress would be 0,
 * and then that of the first rank to step. */
static void keep_progress(const struct publisher *p, const struct ranks *ranks, json_t *live)
{
    if (p->before && !p->finished && !ranks_stepped(ranks)) {
        live_keep_progress(live, p->before);
    }
}

static json_t *live_of(const struct publisher *p, const struct publisher_view *v,
                       const struct live_worker *workers)
{
    int n = v->ranks->servers;
    struct live_server *servers = calloc((size_t)n + 1, sizeof *servers);
    for (int i = 0; servers && i < n; i++) {
        servers[i] = server_of(p, v, v->ranks->workers + i);
    }
    struct live l = {.progress = progress_of(p, v),
                     .metrics = metrics_of(v),
                     .workers = workers,
                     .n_workers = v->ranks->workers,
                     .servers = servers,
                     .n_servers = servers ? n : 0,
                     .version = orders_version(v->orders),
                     .global_batch = batch_of(v),
                     .seconds = v->ranks->recent.time,
                     .rows_dropped = ranks_rows_lost(v->ranks) + v->rows_missing,
                     .program = v->program,
                     .logged = v->logged};
    json_t *j = live_json(&l);
    keep_progress(p, v->ranks, j);
    free(servers);
    return j;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The rows since the last event; NULL: there are none. */
static json_t *take_points(struct ranks *r)
{
    json_t *rows = json_array();
    for (int i = 0; i < r->workers; i++) {
        struct thinned *points = &r->all[i].points;
        for (int k = 0; k < points->count; k++) {
            const struct row *row = &points->rows[k];
            json_array_append_new(rows, rows_event_row(row, r->all[row->rank].node));
        }
        thin_reset(points, points->most);
    }
    if (json_array_size(rows) > 0) {
        return rows_event_json(rows, ranks_samples(r));
    }
    json_decref(rows);
    return NULL;
}

int publisher_tick(struct publisher *p, const struct publisher_view *v, double now, struct err *e)
{
    struct store_news news[3];
    int n = 0, n_workers = v->ranks->workers, assigned[SPEC_WORKERS];
    bool live = measure_due(&p->live_at, now, live_seconds),
         detail = measure_due(&p->detail_at, now, detail_seconds);
    struct live_worker *workers =
        live || detail ? calloc((size_t)n_workers, sizeof *workers) : NULL;
    json_t *points = take_points(v->ranks);
    if (workers) {
        orders_sizes(v->orders, assigned);
    }
    for (int r = 0; workers && r < n_workers; r++) {
        workers[r] = worker_of(p, v, r, assigned[r]);
    }
    if (workers && live) {
        news[n++] = (struct store_news){"live", "live", live_of(p, v, workers)};
    }
    if (points) {
        news[n++] = (struct store_news){NULL, "rows", points};
    }
    if (workers && detail) {
        news[n++] = (struct store_news){"detail:staleness", "staleness",
                                        live_nodes_json(workers, n_workers)};
    }
    int rc = n ? store_publish(v->store, v->ranks->ours.job, news, n, e) : 0;
    for (int i = 0; i < n; i++) {
        json_decref((json_t *)news[i].body);
    }
    free(workers);
    return rc;
}

void publisher_close(struct publisher *p)
{
    json_decref(p->before);
}

void publisher_finish(struct publisher *p, bool finished)
{
    p->finished = finished;
    p->ended = true;
    p->live_at = p->detail_at = -1e9;
}

/* See live.h. */
#include "job/documents/people/live.h"

#include <math.h>
#include <stdlib.h>

#include "job/filter.h"

json_t *live_progress_json(const struct live_progress *p)
{
    return json_pack("{s:f, s:f, s:I, s:I, s:f}", "epoch", p->epoch, "epochs", p->epochs, "step",
                     (json_int_t)p->step, "samples", (json_int_t)p->samples, "fraction",
                     p->fraction);
}

json_t *live_metrics_json(const struct live_metrics *m)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:f, s:f}", "train_loss", document_real(m->train_loss),
                     "test_loss", document_real(m->test_loss), "test_accuracy",
                     document_real(m->test_accuracy), "best_test_accuracy",
                     document_real(m->best_test_accuracy), "samples_per_second",
                     m->samples_per_second, "step_seconds", m->step_seconds);
}

double live_metric(const json_t *job, const char *name)
{
    const char *logged = filter_metric(name);
    const json_t *of = json_object_get(job, logged ? "logged" : "metrics"),
                 *metric = json_object_get(of, logged ? logged : name);
    double x = json_is_number(metric) ? json_number_value(metric) : NAN;
    return isfinite(x) ? x : NAN;
}

/* ---- staleness ------------------------------------------------------------------------------- */

static json_t *worker_staleness(const struct live_worker *w)
{
    json_t *all = staleness_json(w->staleness);
    if (w->histogram || !all) {
        return all ? all : json_object();
    }
    json_t *few = json_pack("{s:O?, s:O?, s:O?}", "mean", json_object_get(all, "mean"), "p95",
                            json_object_get(all, "p95"), "max", json_object_get(all, "max"));
    json_decref(all);
    return few;
}

json_t *live_staleness_json(const struct live_worker *workers, int n, bool recent)
{
    const struct staleness **all = calloc((size_t)n + 1, sizeof *all);
    for (int i = 0; all && i < n; i++) {
        all[i] = workers[i].staleness;
    }
    json_t *j = all ? staleness_job_json(all, n, recent) : NULL;
    free(all);
    return j ? j : json_object();
}

json_t *live_nodes_json(const struct live_worker *workers, int n)
{
    json_t *nodes = json_array();
    for (int i = 0; i < n; i++) {
        json_t *figures = staleness_json(workers[i].staleness);
        json_t *node =
            figures ? json_pack("{s:s, s:i}", "node", workers[i].node, "rank", workers[i].rank)
                    : NULL;
        if (node) {
            json_object_update(node, figures);
            json_array_append_new(nodes, node);
        }
        json_decref(figures);
    }
    return json_pack("{s:o}", "nodes", nodes);
}

/* ---- workers and servers --------------------------------------------------------------------- */

static json_t *worker_json(const struct live_worker *w)
{
    json_t *j = json_pack(
        "{s:i, s:s, s:s, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:o}", "rank", w->rank, "node",
        w->node, "device", w->device, "batch", w->batch, "updates", (json_int_t)w->updates,
        "samples", (json_int_t)w->samples, "samples_per_second", w->samples_per_second,
        "load_seconds", w->load_seconds, "compute_seconds", w->compute_seconds, "exchange_seconds",
        w->exchange_seconds, "wait_seconds", w->wait_seconds, "staleness", worker_staleness(w));
    if (w->slowdown > 0) {
        json_object_set_new(j, "slowdown", json_real(w->slowdown));
    }
    json_object_set_new(j, "heartbeat_age_seconds", json_real(w->heartbeat_age_seconds));
    json_object_set_new(j, "state", json_string(w->state));
    if (w->fit.a + w->fit.k > 0) {
        json_object_set_new(j, "fit",
                            json_pack("{s:f, s:f, s:f}", "fixed_seconds", w->fit.a,
                                      "seconds_per_sample", w->fit.k, "error", w->fit_error));
    }
    if (w->receives > 0) {
        json_object_set_new(j, "receiving",
                            json_pack("{s:I, s:I}", "bytes", (json_int_t)w->received, "of_bytes",
                                      (json_int_t)w->receives));
    }
    return j;
}

json_t *live_workers_json(const struct live_worker *workers, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(out, worker_json(&workers[i]));
    }
    return out;
}

static json_t *servers_json(const struct live_server *servers, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++) {
        const struct live_server *s = &servers[i];
        json_array_append_new(
            out, json_pack("{s:i, s:s, s:I, s:f, s:f, s:s}", "rank", s->rank, "host", s->host,
                           "version", (json_int_t)s->version, "busy_fraction", s->busy_fraction,
                           "heartbeat_age_seconds", s->heartbeat_age_seconds, "state", s->state));
    }
    return out;
}

json_t *live_json(const struct live *l)
{
    const struct live_worker *w = l->workers;
    int n = l->n_workers;
    json_t *j = json_pack(
        "{s:o, s:o, s:o, s:o, s:{s:i, s:i}, s:o, s:o, s:f, s:I}", "progress",
        live_progress_json(&l->progress), "metrics", live_metrics_json(&l->metrics), "staleness",
        live_staleness_json(w, n, false), "staleness_recent", live_staleness_json(w, n, true),
        "assignment", "version", l->version, "global_batch", l->global_batch, "servers",
        servers_json(l->servers, l->n_servers), "workers", live_workers_json(w, n), "seconds",
        l->seconds, "rows_dropped", (json_int_t)l->rows_dropped);
    if (l->program) {
        json_object_set_new(j, "program", joined_json(l->program));
    }
    if (l->logged) {
        json_object_set(j, "logged", l->logged);
    }
    return j;
}

void live_keep_progress(json_t *live, const json_t *before)
{
    static const char *const kept[] = {"progress", "seconds"};
    json_t *loss = json_object_get(json_object_get(before, "metrics"), "train_loss");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_object_set(live, kept[i], json_object_get(before, kept[i]));
    }
    json_object_set(json_object_get(live, "metrics"), "train_loss", loss);
}

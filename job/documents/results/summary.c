/* See summary.h. */
#include "job/documents/results/summary.h"

#include <string.h>

#include "job/documents/people/failure.h"

enum { MOST_ASSIGNMENTS = 1 << 20, MOST_EVALUATIONS = 1 << 20, MOST_WORKERS = 1024 };
static const double fastest = 1e15;

json_t *summary_json(const struct summary *s)
{
    json_t *j = json_pack(
        "{s:s, s:s, s:s, s:f, s:I, s:f, s:I, s:f, s:o, s:o, s:o, s:o, s:{s:i, s:i}, s:O, s:o, s:I}",
        "name", s->name, "strategy", s->strategy, "batching", s->batching, "virtual_seconds",
        s->virtual_seconds, "updates", (json_int_t)s->updates, "epochs", s->epochs, "samples",
        (json_int_t)s->samples, "speedup", s->speedup, "metrics", live_metrics_json(&s->metrics),
        "staleness", live_staleness_json(s->workers, s->n_workers, false), "staleness_recent",
        live_staleness_json(s->workers, s->n_workers, true), "progress",
        live_progress_json(&s->progress), "assignment", "version", s->version, "global_batch",
        s->global_batch, "assignments", s->assignments, "workers",
        live_workers_json(s->workers, s->n_workers), "rank_memory_bytes",
        (json_int_t)s->rank_memory_bytes);
    json_t *evaluations = evaluations_json(s->evaluations);
    json_object_update(j, evaluations);
    json_decref(evaluations);
    if (s->error) {
        json_object_set_new(j, "error",
                            json_pack("{s:s, s:o}", "code", err_name(s->error->code), "message",
                                      jsonx_text(s->error->message)));
    }
    if (s->from.attempt > 0) {
        json_object_set_new(j, "attempt_of", document_new(SUMMARY_FORMAT, &s->from));
    }
    return j;
}

/* Staleness of each node, in the monitor's form. */
static json_t *nodes_of(const struct document *d)
{
    size_t n = json_array_size(document_list(d, "workers", 0, MOST_WORKERS));
    json_t *nodes = json_array();
    for (size_t i = 0; i < n; i++) {
        struct document worker = document_element(d, "workers", i);
        char name[DOCUMENT_NODE];
        document_text(&worker, "node", name, sizeof name);
        int rank = (int)document_integer(&worker, "rank", 0, MOST_WORKERS);
        json_t *figures = document_object(&worker, "staleness", true),
               *node = json_pack("{s:s, s:i}", "node", name, "rank", rank);
        json_object_update(node, figures);
        json_array_append_new(nodes, node);
        json_decref(figures);
    }
    return json_pack("{s:o}", "nodes", nodes);
}

static json_t *steps_of(const struct document *d)
{
    static const char *const told[] = {"node", "batch", "compute_seconds", "exchange_seconds",
                                       "wait_seconds"};
    json_t *steps = json_array(), *one;
    size_t i;
    json_array_foreach(document_list(d, "workers", 0, MOST_WORKERS), i, one) {
        json_t *worker = json_object();
        for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
            json_object_set(worker, told[k], json_object_get(one, told[k]));
        }
        json_array_append_new(steps, worker);
    }
    return steps;
}

static double mean_exchange(const struct document *d)
{
    const json_t *workers = document_list(d, "workers", 0, MOST_WORKERS);
    double sum = 0;
    size_t i, n = json_array_size(workers);
    json_t *one;
    json_array_foreach((json_t *)workers, i, one) {
        sum += json_number_value(json_object_get(one, "exchange_seconds"));
    }
    return n > 0 ? sum / (double)n : 0;
}

/* The job's live document, which is the rest of the summary. */
static json_t *live_of(const struct document *d)
{
    json_t *live = json_copy((json_t *)d->j);
    json_object_del(live, "assignments");
    json_object_del(live, "evaluations");
    json_object_del(live, "attempt_of");
    /* the job's own clock, as in a real job */
    json_object_set(live, "seconds", json_object_get(d->j, "virtual_seconds"));
    return live;
}

static void read_error(const struct document *d, struct err *out)
{
    char code[24];
    struct document error = document_within(d, "error");
    document_text(&error, "code", code, sizeof code);
    document_sentence(&error, "message", out->message, sizeof out->message);
    if (code[0] && !failure_code(code, &out->code)) {
        document_problem(&error, "code", "'%s' is not the code of an error", code);
    }
}

int summary_read(struct summary_read *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct document d = document_plain(j, &problems);
    memset(out, 0, sizeof *out);
    out->from.rank = COORDINATOR;
    if (document_has(&d, "attempt_of")) {
        struct document of = document_open(json_object_get(d.j, "attempt_of"), SUMMARY_FORMAT,
                                           &out->from, &problems);
        (void)of;
    }
    if (document_has(&d, "error")) {
        read_error(&d, &out->error);
    }
    struct document metrics = document_within(&d, "metrics");
    out->samples_per_second = document_number(&metrics, "samples_per_second", 0, fastest);
    out->staleness = document_object(&d, "staleness", true);
    out->assignments = json_incref((json_t *)document_list(&d, "assignments", 0, MOST_ASSIGNMENTS));
    out->evaluations = json_incref((json_t *)document_list(&d, "evaluations", 0, MOST_EVALUATIONS));
    out->rank_memory_bytes = document_integer(&d, "rank_memory_bytes", 0, INT64_MAX);
    out->nodes = nodes_of(&d);
    out->steps = steps_of(&d);
    out->exchange_seconds = mean_exchange(&d);
    out->live = d.j ? live_of(&d) : NULL;
    return document_close(&d, "the simulator's summary", e);
}

void summary_release(struct summary_read *s)
{
    json_decref(s->live);
    json_decref(s->nodes);
    json_decref(s->steps);
    json_decref(s->assignments);
    json_decref(s->evaluations);
    json_decref(s->staleness);
    memset(s, 0, sizeof *s);
}

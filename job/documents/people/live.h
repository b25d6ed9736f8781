/* Live document: what people see of a running job. The monitor writes it for real attempts, the
 * simulator for virtual ones (summary.h). The store has it under the job's `live`, and the API
 * merges it into the job. docs/semantics.md defines every number.
 *
 *   {"progress": {…}, "metrics": {…}, "staleness": {…}, "staleness_recent": {…},
 *    "assignment": {"version", "global_batch"}, "servers": […], "workers": […], "seconds": 12.5,
 *    "rows_dropped": 0, "program": {…}, "logged": {"bleu": 31.2}}
 *
 * `program` is there once a user's program has joined, `logged` (the newest value of each metric)
 * once it has logged some.
 *
 * It is the API's own form, without a format number. The page, the command line and /metrics find
 * it in a job as any client does; a sweep reads a metric with live_metric(). The structs here are
 * filled from measurements and printed; strings and arrays are borrowed.
 */
#ifndef JOB_DOCUMENTS_PEOPLE_LIVE_H
#define JOB_DOCUMENTS_PEOPLE_LIVE_H

#include "job/documents/document.h"
#include "job/documents/ranks/joined.h"
#include "job/minibatch/profile.h"
#include "job/staleness.h"

struct live_progress {
    double epoch, epochs;
    int64_t step, samples;
    double fraction;
};

struct live_metrics { /* NaN: not known */
    double train_loss, test_loss, test_accuracy, best_test_accuracy;
    double samples_per_second, step_seconds;
};

struct live_worker {
    int rank, batch;
    const char *node, *device, *state;
    int64_t updates, samples;
    double samples_per_second, load_seconds, compute_seconds, exchange_seconds, wait_seconds;
    const struct staleness *staleness;
    bool histogram;   /* staleness with all its figures, not only mean, p95 and max */
    double slowdown;  /* 0: not told */
    struct line fit;  /* the line from which its minibatch is made; 0, 0: none */
    double fit_error; /* relative standard error of that line's time */
    double heartbeat_age_seconds;
    int64_t received, receives; /* bytes of the data set that it has received, and that it receives
                                   in all; receives 0: none */
};

struct live_server {
    int rank;
    const char *host, *state;
    int64_t version;
    double busy_fraction, heartbeat_age_seconds;
};

struct live {
    struct live_progress progress;
    struct live_metrics metrics;
    const struct live_worker *workers; /* [n_workers] */
    int n_workers;
    const struct live_server *servers; /* [n_servers] */
    int n_servers;
    int version, global_batch; /* of the assignment in force */
    double seconds;            /* job time of the newest row */
    int64_t rows_dropped;
    const struct joined *program; /* NULL: none has joined */
    json_t *logged; /* {name: number, or null where it is not finite}; borrowed; NULL: none */
};

json_t *live_json(const struct live *l); /* new reference */
/* Takes over the progress of an earlier document. */
void live_keep_progress(json_t *live, const json_t *before);
/* Parts of the document, for the simulator's summary. New references. */
json_t *live_progress_json(const struct live_progress *p);
json_t *live_metrics_json(const struct live_metrics *m);
/* A metric of a job in the API's form, by its name; of one that its program logs, "logged.NAME".
 * NaN: not known. */
double live_metric(const json_t *job, const char *name);
json_t *live_workers_json(const struct live_worker *workers, int n);
/* Staleness over all workers: of the whole job, or of the last 100 gradients of each. */
json_t *live_staleness_json(const struct live_worker *workers, int n, bool recent);

/* The document and event "staleness": {"nodes": [{"node", "rank", …}]}. New reference. */
json_t *live_nodes_json(const struct live_worker *workers, int n);

#endif

/* Summary: what a virtual run leaves. The simulator writes progress.json while it runs and
 * summary.json at its end; both have this form. A run that fails leaves its last progress.json,
 * with {"error": {"code", "message"}} added. The coordinator shows a virtual job by these files,
 * and predictions take their figures from a summary.
 *
 *   {"name", "strategy", "batching", "virtual_seconds", "updates", "epochs", "samples", "speedup",
 *    "metrics": {…}, "staleness": {…}, "staleness_recent": {…}, "progress": {…},
 *    "assignment": {"version", "global_batch"}, "assignments": […], "evaluations": […],
 *    "workers": […], "rank_memory_bytes"}
 *
 * Nothing in it comes from the real clock: a rerun of the same job leaves the same bytes. So a run
 * from the command line names no attempt; one that a coordinator started says in `attempt_of` which
 * attempt of which job it is: {"format": 1, "job", "attempt", "rank": null}.
 */
#ifndef JOB_DOCUMENTS_RESULTS_SUMMARY_H
#define JOB_DOCUMENTS_RESULTS_SUMMARY_H

#include "job/documents/ranks/evaluation.h"
#include "job/documents/people/live.h"

enum { SUMMARY_FORMAT = 1 };

struct summary {
    struct sender from; /* attempt 0: of no attempt */
    const char *name, *strategy, *batching;
    double virtual_seconds, epochs, speedup;
    int64_t updates, samples;
    struct live_metrics metrics;
    struct live_progress progress;
    const struct live_worker *workers; /* [n_workers]; borrowed */
    int n_workers;
    int version, global_batch;             /* of the assignment in force */
    json_t *assignments;                   /* all assignments of the run, oldest first; borrowed */
    const struct evaluations *evaluations; /* all evaluations of the run; borrowed */
    const struct err *error;               /* why the run failed; borrowed; NULL: it did not */
    int64_t rank_memory_bytes; /* memory that the node with the largest minibatch would need as a
                                  real rank */
};

json_t *summary_json(const struct summary *s); /* new reference */

/* What is read from a summary; all of it owned. */
struct summary_read {
    struct sender from;  /* attempt 0: of no attempt */
    json_t *live;        /* the job's live document (live.h) */
    json_t *nodes;       /* staleness of each node, as live_nodes_json() */
    json_t *steps;       /* the times of each worker's step: [{"node", "batch", "compute_seconds",
                            "exchange_seconds", "wait_seconds"}] */
    json_t *assignments; /* array */
    json_t *evaluations; /* array, as evaluation_json() prints each */
    json_t *staleness;   /* of the job */
    struct err error;    /* why the run failed; ERR_NONE: it did not */
    double samples_per_second;
    double exchange_seconds; /* of a step: the mean over the workers; 0: there are none */
    int64_t rank_memory_bytes;
};

/* Release it in any case. */
int summary_read(struct summary_read *out, const json_t *j, struct err *e);
void summary_release(struct summary_read *s);

#endif

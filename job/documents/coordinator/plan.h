/* The plan of an attempt: from it every rank starts, mpirun's command is made, and a coordinator
 * that restarts knows what runs. The store has it under the job's `plan`, written once before the
 * attempt's processes start.
 *
 *   {"format": 1, …, "spec": {…}, "workers": [{"rank", "node", "host", "device", "slowdown",
 *    "threads", "agent", "address", "tuning"}], "servers": 1, "job_dir": "/…/jobs/7f3a…",
 *    "data_roots": ["/…"], "init_path": null, "program_folder": null, "program_archive": null,
 *    "first": {"version": 1, "sizes": […]},    "speeds": […]}
 *
 * A virtual attempt runs as one process: its plan has no workers, no servers and no sizes.
 */
#ifndef JOB_DOCUMENTS_COORDINATOR_PLAN_H
#define JOB_DOCUMENTS_COORDINATOR_PLAN_H

#include "job/documents/document.h"
#include "job/spec/spec.h"

enum { PLAN_FORMAT = 1, PLAN_SERVERS = 1024, PLAN_HOST = 256, PLAN_PATH = 4096 };

struct plan_worker { /* rank i is workers[i] */
    char node[DOCUMENT_NODE], host[PLAN_HOST], device[DOCUMENT_NODE];
    double slowdown; /* emulated, >= 1 */
    int threads;
    bool agent;                  /* the host's agent starts it */
    char address[DOCUMENT_NODE]; /* address of that agent's host; empty: not known */
    json_t *tuning; /* what an earlier job measured on its device (dev_tuning), or NULL; owned */
};

struct plan {
    struct sender from;
    json_t *spec;                /* as accepted, for `spec.workers` workers; owned */
    struct plan_worker *workers; /* [n_workers]; owned */
    int n_workers, servers;      /* both 0: a virtual attempt */
    char job_dir[PLAN_PATH];
    char roots[PLAN_PATH];           /* of data sets, separated by colons; empty: none */
    char init_path[PLAN_PATH];       /* of the file that `init` names; empty: none */
    char program_folder[PLAN_PATH];  /* folder of the spec's program on the coordinator's host, and
                                        on other hosts unless they say otherwise; empty: none */
    char program_archive[PLAN_PATH]; /* of an uploaded program, on the coordinator's host (a host
                                        with an agent has its own copy); empty: none */
    int first_version;
    int first_sizes[SPEC_WORKERS]; /* [n_workers], minibatches */
    double speeds[SPEC_WORKERS];   /* [n_workers], relative, their mean is 1 */
};

json_t *plan_json(const struct plan *p); /* new reference */
/* Release it in any case. About 24 KB: not for small stacks. */
int plan_read(struct plan *out, const json_t *j, struct err *e);
void plan_release(struct plan *p);
/* The first worker on a host with an agent; NULL: everything runs on the coordinator's. */
const struct plan_worker *plan_first_remote(const struct plan *plan);
bool plan_uses(const struct plan *plan, const char *node); /* does a worker run on it? */
/* May this attempt go on when one of its workers dies? In strategies without a server only if all
 * devices compute in host memory, where a step can be undone. `spec` is the plan's. */
bool plan_outlives_worker(const struct plan *plan, const struct jobspec *spec);
/* May a dead worker of such an attempt be started again and join? Only if there is at most one
 * server. */
bool plan_takes_back(const struct plan *plan, const struct jobspec *spec);
/* The worker on whose node this rank runs: a worker's is its own; further servers run in turn on
 * the nodes (docs/semantics.md#ranks). NULL: the keeper, which runs on the coordinator's host. */
const struct plan_worker *plan_worker_with(const struct plan *plan, int rank);

#endif

/* An attempt in the scheduler's hands. Inside coordinator/ only. */
#ifndef COORDINATOR_RUN_H
#define COORDINATOR_RUN_H

#include <limits.h>
#include <time.h>

#include "coordinator/monitor.h"
#include "coordinator/placement.h"
#include "coordinator/scheduler.h"
#include "job/assign.h"

struct run {
    struct run *next;
    struct attempt attempt;
    const struct launcher *launcher;
    json_t *plan;                                               /* owned */
    struct jobspec *spec;                                       /* owned */
    struct monitor *monitor;                                    /* owned; NULL for virtual jobs */
    double launched_at, cancel_at, ended_at, drain_at, over_at; /* 0: not yet */
    double complained_at;
    int failures; /* turns that failed since the last one that did not */
    bool expired; /* past max_seconds: told to stop */
    bool leaving; /* a host of it is about to stop: it writes a checkpoint and goes back to the
                     queue */
    bool over;    /* its process has ended */
    int exit_code;
    char why[300];           /* mpirun's last words */
    json_t *error;           /* what the coordinator found wrong; owned, or NULL */
    struct timespec told;    /* of a virtual job: the age of what was told last, */
    size_t told_assignments; /* and how many assignments were */
};

struct sched {
    struct store *store;
    char data_dir[PATH_MAX], roots[4096], local_host[256];
    int virtual_jobs;
    const struct launcher *mpirun, *simulator;
    struct run *runs; /* owned list */
    int n_runs;
    bool draining;
    double last_tick, sweep_at, queue_at, leaving_at;
    double
        quiet_until; /* nothing starts before: nodes have still to report to a store that is back */
    bool store_away;
    json_t *look; /* store_overview() as of look_at, or NULL: what was seen does not hold any more;
                     owned */
    double look_at;
    json_t *waiting_since; /* job id → time of the turn that first saw it wait for nodes; owned */
    size_t queue_from;     /* in a long queue: the window beyond its head that is looked at next */
    char *
        queue_seen; /* what the queue and the nodes looked like when it was last looked at; owned */
};

/* queue.c: starts what can start. Negative: the store is away. */
int queue_tick(struct sched *s, double now, struct err *e);
/* run.c: one attempt's turn. 1: it has ended and its job is where it belongs; 0: it goes on;
 * negative: try again. */
int run_tick(struct sched *s, struct run *r, double now, struct err *e);
/* Ends the process of a job that was cancelled (or of all, in a drain) and does not follow. Asks
 * nothing of the store: a store that does not answer in time, on a busy machine, must not keep a
 * job from ending. */
void run_enforce(struct run *r, double now);
void run_free(struct run *r);
struct run *run_find(const struct sched *s, const char *job);
/* An attempt that was lost: its job goes back to the queue, or has failed once that has happened
 * max_restarts times, or where another attempt would meet the same error again. `state` is what the
 * job is in. */
int run_lost(struct sched *s, const char *job, const struct jobspec *spec, enum job_state state,
             const json_t *error, struct err *e);
/* run_virtual.c: tells what the simulator wrote since; how it ended ("finished", or "" if it did
 * not get there). */
void run_virtual_tick(struct sched *s, struct run *r);
const char *run_virtual_outcome(struct sched *s, struct run *r);
/* launch.c: starts the queued job's next attempt on a placement. 0, or negative: the job is still
 * queued or failed. */
int launch_job(struct sched *s, const char *job, struct jobspec *spec,
               const struct placement *placement, double now, struct err *e);
/* Claims of this plan's nodes are given back. */
int release_nodes(struct sched *s, const char *job, const json_t *plan, struct err *e);
struct jobspec *sched_read_spec(struct sched *s, const char *job,
                                struct err *e); /* jobspec_release and free */
/* The store did not answer, or memory ran out: nothing has been decided, and it is tried again. */
bool sched_is_away(const struct err *e);
json_t *sched_error(const char *code, const char *message, int rank, const char *node, int attempt);

#endif

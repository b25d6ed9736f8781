/* The attempts in hand, and what every file of the scheduler's turn needs to work on them. The turn
 * is a line: each file calls only those to its right.
 *
 *   scheduler.c ─┬─► recover.c ──────────────┐
 *                ├─► run/: run.c ────────────┴─► end.c ─► virtual.c ────┐
 *                ├─► queue/: queue.c ─┬─► launch.c ─────────────────────┼─► resize.c ─► attempts.c
 *                │                    └─► preempt.c ─► shares.c ────────┤
 *                └─► elastic.c ─► queue/: shares.c ─────────────────────┘
 *
 * Below it are the monitor, the launchers and the store.
 *
 * The store is the truth about a job. What is here can be rebuilt from it (recover.c).
 */
#ifndef COORDINATOR_TURN_ATTEMPTS_H
#define COORDINATOR_TURN_ATTEMPTS_H

#include <limits.h>
#include <sys/stat.h>

#include "common/text/names.h"
#include "coordinator/launchers/launcher.h"
#include "coordinator/monitor/monitor.h"
#include "store/store.h"

/* A job whose last attempts ended soon: attempts_back_off(). */
struct pause {
    struct pause *next;
    char job[STORE_ID];
    int quick;    /* attempts in a row that ended soon */
    double until; /* no attempt of the job starts before */
};

enum { RESIZE_WHY = 120 };
/* A change of the size of a job, from when it is asked for until its next attempt begins. */
struct resize {
    struct resize *next; /* among those between two attempts */
    char job[STORE_ID];
    struct names gives;   /* nodes that it gives up; none: it grows; owned */
    char why[RESIZE_WHY]; /* for which job it gives them up */
    /* known once its attempt has ended: */
    struct names nodes; /* that it had; owned */
    int from;           /* how many */
    double step_at;     /* when it made its last step */
};

/* An attempt of a job. */
struct run {
    struct run *next;
    struct attempt attempt;
    const struct launcher *launcher;
    struct plan *plan;                                          /* owned */
    struct jobspec *spec;                                       /* owned */
    struct monitor *monitor;                                    /* owned; NULL for virtual jobs */
    double launched_at, cancel_at, ended_at, drain_at, over_at; /* 0: not yet */
    double complained_at;
    double heard_at; /* of a virtual job elsewhere: when its files changed last */
    int failures;    /* turns that failed since the last one that did not */
    bool expired;    /* past max_seconds or max_wall_seconds: told to stop */
    double began;    /* the job, by clock_now(); 0: not known yet (wall_is_over) */
    struct err late; /* past max_wall_seconds: how */
    bool leaving;    /* a host of it is about to stop, or it yields: it writes a checkpoint and goes
                     back to the queue */
    bool yields;     /* leaving, so that another job gets its nodes, or to change its size */
    struct resize *resize; /* leaving to change its size; owned, NULL: it does not */
    bool requeued;         /* left, and its job is queued again */
    int priority;          /* as it was at */
    double priority_at;    /* this turn; 0: never read */
    int64_t step;          /* the newest that was seen, and */
    double step_at;        /* when */
    double paced_at;       /* since when its pace is measured; 0: it has not stepped yet */
    int64_t paced_samples; /* that it had trained on by then */
    double changing_since; /* the last step before this attempt, which changed the size; 0: it did
                              not, or has stepped since */
    double change_seconds; /* how long that change took, without a step; 0: not known */
    bool elsewhere;   /* its process is on another host or of another boot: only heartbeats tell how
                       it is */
    bool blameless;   /* if it is lost, the coordinator's end is the cause, and no restart is
                         counted */
    int64_t users_on; /* value of store_connection() when users of the store were made for its
                         ranks */
    bool unrecorded;  /* the record of its process is still to be written */
    struct assignment *first; /* the process is not started yet, since the monitor still reads what
                                 earlier attempts left (monitor_ready); owned; NULL: it is */
    bool over;                /* its process has ended */
    struct attempt_end end;   /* how, as its launcher tells */
    bool failed;              /* the coordinator found something wrong: */
    struct failure failure;   /* this */
    struct stat told;         /* of a virtual job: the file that was told last, */
    size_t told_assignments;  /* and how many assignments and evaluations were */
    size_t told_evaluations;
    bool log_told;   /* what the simulator printed is in the launcher's log */
    bool stray_told; /* it was logged that a file of another attempt is ignored */
};

struct attempts {
    struct store *store; /* borrowed, as the launchers */
    char data_dir[PATH_MAX], roots[PLAN_PATH], local_host[PLAN_HOST];
    const struct launcher *mpirun, *simulator; /* simulator may be NULL */
    struct run *runs;                          /* owned list */
    int n_runs;
    bool draining; /* nothing starts, and what runs is asked to end */
    bool changed;  /* we changed a job's state: what was seen of the store does not hold any more */
    struct pause *pauses;   /* owned list */
    struct resize *resizes; /* jobs between two attempts of different size; owned list */
};

struct run *attempts_find(const struct attempts *a, const char *job); /* NULL: not in hand */
void attempts_add(struct attempts *a, struct run *r);                 /* takes it over */
void attempts_drop(struct attempts *a, struct run *gone);             /* frees it */
void attempts_release(struct attempts *a); /* forgets all; their processes go on */
void run_free(struct run *r);
void attempts_free_resizes(struct resize **list); /* empties it */

/* Does the error mean that the store did not answer, or that memory ran out? Then nothing has been
 * decided, and it is tried again. */
bool attempts_store_away(const struct err *e);
/* The priority of a run's job, which people may have changed since: read once a turn. */
int attempts_priority(const struct attempts *a, struct run *r, double now);
/* The job's spec; freed with attempts_free_spec(). */
struct jobspec *attempts_spec(struct attempts *a, const char *job, struct err *e);
void attempts_free_spec(struct jobspec *spec); /* NULL is fine */
/* Changes the job's state, with `why` as its error; NULL: none. */
int attempts_move(struct attempts *a, const char *job, enum job_state from, enum job_state to,
                  const struct failure *why, struct err *e);
/* Writes the record of the attempt's process: job/documents/coordinator/launched.h. */
int attempts_record(struct attempts *a, const struct run *r, struct err *e);
/* An attempt was lost after `lasted` seconds. After three in a row that lasted less than 30 s, and
 * after each further one, the job waits before its next attempt: 1 s, 2 s, 4 s, up to a minute.
 * attempts_pause: the seconds that it still waits, or 0. */
void attempts_back_off(struct attempts *a, const char *job, double lasted, double now);
double attempts_pause(const struct attempts *a, const char *job, double now);
/* Opens the monitor of a run that has a plan and a spec. `adopted`: another coordinator started
 * it. */
int attempts_watch(struct attempts *a, struct run *r, bool adopted, double now, struct err *e);
/* Workers of this run that are not lost. */
int run_workers(const struct run *r);
bool run_is_lost(const struct run *r, int worker);
/* Claims of this plan's nodes are given back. */
int attempts_release_nodes(struct attempts *a, const struct plan *plan, struct err *e);

#endif

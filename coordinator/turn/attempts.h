/* The attempts that are under way, and what every file of the scheduler's turn needs for them. The
 * turn is a line: each file calls only those to its right.
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

/* A job whose last attempts ended soon after their start: attempts_back_off(). */
struct pause {
    struct pause *next;
    char job[STORE_ID];
    int quick;    /* attempts in a row that ended soon */
    double until; /* no attempt of the job starts before this time */
};

enum { RESIZE_WHY = 120 };
/* A change of the number of nodes of a job, from the decision until its next attempt begins. */
struct resize {
    struct resize *next; /* in attempts.resizes */
    char job[STORE_ID];
    struct names gives;   /* nodes that it gives up; empty: it grows; owned */
    char why[RESIZE_WHY]; /* the job for which it gives them up */
    /* known when its attempt has ended: */
    struct names nodes; /* nodes that the attempt had; owned */
    int from;           /* their number */
    double step_at;     /* time of its last step */
};

/* An attempt that is launching, running or ending. Times are seconds; 0: not yet, or not known. */
struct run {
    struct run *next;
    struct attempt attempt;
    const struct launcher *launcher;
    struct plan *plan;       /* owned */
    struct jobspec *spec;    /* owned */
    struct monitor *monitor; /* owned; NULL for virtual jobs */
    double launched_at, cancel_at, ended_at, drain_at, over_at;

    /* its process: */
    struct assignment *first; /* set while the process is not started, because the monitor still
                                 reads what earlier attempts left (monitor_ready); owned */
    bool unrecorded;          /* its record is not written to the store yet */
    int64_t users_on;         /* store_connection() when its ranks' users of Redis were made */
    bool elsewhere;           /* it is on another host, or from before a reboot, so only heartbeats
                                 show how it is */
    bool blameless;         /* if it is lost, the coordinator's own end is the cause, and no restart
                                 is counted */
    bool over;              /* it has ended */
    struct attempt_end end; /* how, as the launcher reports */
    bool failed;            /* the coordinator has found something wrong */
    struct failure failure; /* and this is it */
    int failures;           /* turns in a row in which something failed */
    double complained_at;   /* when that was logged last */

    /* limits of time: */
    bool expired;    /* past max_seconds or max_wall_seconds, and told to stop */
    double began;    /* begin of the job, by clock_now() (wall_is_over) */
    struct err late; /* past max_wall_seconds: the sentence */

    /* giving up its nodes: */
    bool leaving;          /* it writes a checkpoint and goes back to the queue, because one of its
                              hosts is about to stop, or because it yields */
    bool yields;           /* it leaves so that another job gets its nodes, or to change its size */
    struct resize *resize; /* it leaves to change its size; owned, or NULL */
    bool requeued;         /* it has left, and its job is queued again */
    int priority;          /* as read at the turn of time priority_at */
    double priority_at;

    /* its pace: */
    int64_t step; /* the newest step, seen at step_at */
    double step_at;
    double paced_at;       /* since when the pace is measured */
    int64_t paced_samples; /* samples that the job had trained on by then */
    double
        changing_since; /* if this attempt changed the size and has not stepped yet: when the last
                              step before it was made */
    double change_seconds; /* how long that change took */

    /* virtual jobs: */
    double heard_at;         /* one that is elsewhere: when its files changed last */
    struct stat told;        /* the file that was reported last */
    size_t told_assignments; /* and how many assignments and evaluations of it were */
    size_t told_evaluations;
    bool log_told;   /* the simulator's output was copied to the launcher's log */
    bool stray_told; /* the log has said that a file of another attempt is ignored */
};

struct attempts {
    struct store *store; /* borrowed, as the launchers */
    char data_dir[PATH_MAX], roots[PLAN_PATH], local_host[PLAN_HOST];
    const struct launcher *mpirun, *simulator; /* simulator may be NULL */
    struct run *runs;                          /* [n_runs] a list; owned */
    int n_runs;
    bool draining;          /* nothing starts, and running attempts are asked to end */
    bool changed;           /* this turn has changed a job's state: read the store again */
    struct pause *pauses;   /* a list; owned */
    struct resize *resizes; /* a list of jobs between two attempts of different size; owned */
};

struct run *attempts_find(const struct attempts *a, const char *job); /* NULL: there is none */
void attempts_add(struct attempts *a, struct run *r);                 /* takes it over */
void attempts_drop(struct attempts *a, struct run *gone);             /* removes and frees it */
void attempts_release(struct attempts *a); /* frees all; their processes go on */
void run_free(struct run *r);
void attempts_free_resizes(struct resize **list); /* empties it */

/* Does the error mean that the store did not answer, or that memory ran out? Then nothing was
 * decided, and the next turn tries again. */
bool attempts_store_away(const struct err *e);
/* The priority of a run's job, which people may change; read from the store once a turn. */
int attempts_priority(const struct attempts *a, struct run *r, double now);
/* Reads a job's spec; the caller calls attempts_free_spec(). */
struct jobspec *attempts_spec(struct attempts *a, const char *job, struct err *e);
void attempts_free_spec(struct jobspec *spec); /* NULL is fine */
/* Changes the job's state, with `why` as its error; NULL: none. */
int attempts_move(struct attempts *a, const char *job, enum job_state from, enum job_state to,
                  const struct failure *why, struct err *e);
/* Writes the record of the attempt's process: job/documents/coordinator/launched.h. */
int attempts_record(struct attempts *a, const struct run *r, struct err *e);
/* Call it when an attempt was lost after `lasted` seconds. After three in a row that lasted less
 * than 30 s, and after each further one, the job waits before its next attempt: 1 s, 2 s, 4 s, up
 * to a minute. attempts_pause: the seconds that it still waits, or 0. */
void attempts_back_off(struct attempts *a, const char *job, double lasted, double now);
double attempts_pause(const struct attempts *a, const char *job, double now);
/* Opens the monitor of a run that has a plan and a spec. adopted: another coordinator started it.
 *  */
int attempts_watch(struct attempts *a, struct run *r, bool adopted, double now, struct err *e);
/* The number of workers that are not lost. */
int run_workers(const struct run *r);
bool run_is_lost(const struct run *r, int worker);
/* Has it ended or failed, or was it asked to end or to give its nodes up? */
bool run_is_ending(const struct run *r);
/* Gives back the claims of this plan's nodes. */
int attempts_release_nodes(struct attempts *a, const struct plan *plan, struct err *e);

#endif

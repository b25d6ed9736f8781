/* The scheduler: one function, sched_tick(now), over the store and launchers; no thread, no clock
 * of its own.
 *
 *   queued ──placement──► launching ──all ranks stepped──► running ──► succeeded | failed |
 *      ▲                      │                               │         paused | cancelled
 *      └───── attempt lost ───┴───────────────────────────────┘
 *             from the newest checkpoint, up to max_restarts
 *
 * The store is the truth about a job. What is in memory (attempts.h, the monitor) can be rebuilt
 * from it: see recover.h.
 */
#ifndef COORDINATOR_TURN_SCHEDULER_H
#define COORDINATOR_TURN_SCHEDULER_H

#include "coordinator/files/quotas.h"
#include "coordinator/launchers/launcher.h"
#include "coordinator/planning/growth.h"
#include "coordinator/lease.h"
#include "store/store.h"

struct sched;

struct sched_config {
    struct store *store;                       /* borrowed; used by the thread that ticks */
    const char *data_dir;                      /* absolute; copied, as the others */
    const char *roots;                         /* of data sets, separated by colons, absolute */
    const char *local_host;                    /* name of this host, as its nodes give it */
    int virtual_jobs;                          /* at a time */
    const struct launcher *mpirun, *simulator; /* borrowed; simulator may be NULL */
    const struct lease *lease;                 /* borrowed; NULL: no rival is possible */
    struct quotas *quotas;                     /* borrowed; NULL: owners have no limits */
    struct growth_rules growth;                /* when elastic jobs grow */
};

/* NULL: memory ran out. Nothing is read yet. */
struct sched *sched_new(const struct sched_config *config, struct err *e);
/* Forgets everything; attempts go on and can be adopted. */
void sched_free(struct sched *s);
/* Everything that is due at `now` (seconds, any origin, never backwards). Failures of the store are
 * logged and tried again. */
void sched_tick(struct sched *s, double now);
/* Somebody changed something in the store: the next turn looks at it. */
void sched_woken(struct sched *s);
bool sched_store_away(const struct sched *s); /* at the last turn */
/* Have ranks reported more than the last turn read? Then the next one should come at once. */
bool sched_behind(const struct sched *s);
int sched_running(const struct sched *s); /* attempts in hand */
/* From now on nothing starts, and running attempts write a checkpoint and go back to the queue (a
 * clean stop of the coordinator). */
void sched_drain(struct sched *s);
/* Ends what is still there after a drain; the jobs are resumed by the next coordinator. */
void sched_abandon(struct sched *s);

#endif

/* The monitor's parts, for the five files that put them together: open.c, monitor.c (the turn),
 * facts.c, losses.c and returns.c. Each part has its own header and file, which knows nothing of
 * the others but what it is given:
 *
 *   monitor.c ─┬─► feed       rows: store → history on disk; how far they are
 *   facts.c    ├─► ranks      what each rank said last; rows and heartbeats
 *   losses.c   ├─► orders     minibatches, stop and pause; profiles       ─► ranks
 *   open.c     ├─► results    evaluations, how the attempt ended
 *              ├─► watchdog   who is alive                                ─► ranks
 *              ├─► publisher  documents, events for people             ─► ranks, orders, results
 *              └─► logs       the output, told apart by rank
 */
#ifndef COORDINATOR_MONITOR_PARTS_H
#define COORDINATOR_MONITOR_PARTS_H

#include <limits.h>

#include "coordinator/monitor/feed.h"
#include "coordinator/monitor/logs.h"
#include "coordinator/monitor/monitor.h"
#include "coordinator/monitor/publisher.h"
#include "coordinator/monitor/watchdog.h"

enum { NORMS_EARLY = 16, LOGGED_EARLY = 64 };

struct monitor {
    struct store *store;
    const struct jobspec *spec;
    struct sender ours; /* job and attempt */
    char host[256], job_dir[PATH_MAX];
    struct seals *seals; /* owned */
    struct ranks ranks;
    struct feed feed;
    struct orders orders;
    struct results results;
    struct watchdog watchdog;
    struct publisher publisher;
    struct logs logs;
    int64_t training_samples; /* of the data set; 0: not known yet */
    struct joined program;    /* what a user's program has reported; global_batch 0: none joined */
    json_t *news; /* facts.c: events of the current read, if many facts wait; else NULL */

    /* what a death means: */
    bool outlives_worker; /* plan_outlives_worker */
    bool takes_back;      /* plan_takes_back */
    bool needed_lost;     /* a rank has died without which the attempt cannot go on */
    struct failure needed;
    double fallen_at; /* when the first worker died about which nothing is decided; 0: there is
                         none */

    /* The rows of a restarted attempt wait in the store until it is known from which checkpoint it
     * started, because older rows after that checkpoint are superseded first: the gate. */
    bool gate_open;
    bool takes_over;          /* reports of earlier attempts are still being read from the store */
    struct evaluations early; /* evaluations that came before the gate opened; owned */
    struct norms early_norms[NORMS_EARLY]; /* [n_early_norms] the same of norms; owned */
    int n_early_norms;
    struct logged early_logged[LOGGED_EARLY]; /* [n_early_logged] and of logged metrics; owned */
    int n_early_logged;

    bool behind;  /* the last turn has left rows or facts unread */
    bool unsaved; /* facts were read after the bookmark was written. Norms and logged metrics do not
                     count: they may be read twice, since history drops those that come again */
    int64_t keeper_seen_at; /* `at` of the keeper's first heartbeat as a server; 0: none */
    double beats_at, show_at, flush_at, profile_at; /* when each was last done */
};

/* bookmarks.c: writes the bookmark, and goes on from the one in the store. adopted: in the middle
 * of its attempt; else after it. */
int monitor_save(struct monitor *m, struct err *e);
int monitor_load(struct monitor *m, bool adopted, struct err *e);
enum { FACTS_ALL = INT_MAX };
enum facts_read { FACTS_NONE_WAIT, FACTS_MAY_WAIT };
/* facts.c: reads facts, at most `reads` batches of them, and follows them. enum facts_read says
 * whether more may wait. old_attempt: facts of attempts that have ended; only their results
 * count. */
int monitor_read_facts(struct monitor *m, bool old_attempt, int reads, struct err *e);
/* losses.c: takes the fact that a worker has died. losses_decide() decides what follows. */
void losses_take(struct monitor *m, const struct fact *f);
/* The watchdog says that this rank is lost. If it is a worker whose heartbeats stand still, this
 * asks its guard to kill it, once, so that the death is reported like any other. False: it is not.
 *  */
bool losses_end_silent(struct monitor *m, int rank);
/* Call it at the end of each turn. */
void losses_decide(struct monitor *m, double now);
/* returns.c: starts workers again that have died. Call it at the end of each turn. */
void returns_decide(struct monitor *m, double now);
/* The return of this rank has failed. The next turn writes that to the control document. */
void returns_end(struct monitor *m, int rank);
/* facts.c: takes the global batch of the program that has joined, if one has. */
void monitor_take_batch(struct monitor *m);
/* facts.c: the samples that the job trains on until it is done, by its epochs or by the evaluation
 * that reached its target; 0: not known. */
int64_t monitor_planned_samples(const struct monitor *m);
/* facts.c: opens the gate of a restarted attempt that found no checkpoint. */
int monitor_watch_gate(struct monitor *m, struct err *e);

#endif

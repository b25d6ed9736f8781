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

enum { NORMS_EARLY = 16 };

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
    int64_t training_samples; /* of the data set; 0: not told yet */
    json_t *news; /* facts.c: events of the read under way, where many facts wait; else NULL */
    bool outlives_worker; /* plan_outlives_worker */
    bool takes_back;      /* plan_takes_back */
    bool needed_lost;     /* a rank died that the attempt cannot go on without: */
    struct failure needed;
    double fallen_at;      /* when the first worker died of those about which it is not decided yet
                         whether the others go on; 0: there is none */
    struct joined program; /* what a user's program brought; its global_batch is 0: none joined */
    /* A restarted attempt: its rows wait in the store until it is known from which checkpoint it
     * started, because older rows past that are superseded first. */
    bool gate_open;
    bool takes_over; /* a new attempt: what earlier ones left in the store is not all read yet */
    bool behind;     /* rows or facts wait that the last turn has left */
    bool unsaved; /* facts were read past the bookmark, other than norms: history drops norms that
                        come again, so the next flush is soon enough for them */
    struct evaluations early;              /* evaluations that came before the gate opened; owned */
    struct norms early_norms[NORMS_EARLY]; /* the same of norms, the first of them; owned */
    int n_early_norms;
    int64_t keeper_seen_at; /* `at` of the first heartbeat that says it serves; 0: none */
    double beats_at, show_at, flush_at, profile_at; /* when each was last done */
};

/* bookmarks.c: writes the bookmark down; goes on from the one that is there. `adopted`: with its
 * attempt, else behind it. */
int monitor_save(struct monitor *m, struct err *e);
int monitor_load(struct monitor *m, bool adopted, struct err *e);
enum { FACTS_ALL = INT_MAX };
enum facts_read { FACTS_NONE_WAIT, FACTS_MAY_WAIT };
/* facts.c: reads and follows the facts that wait, by `reads` reads of some at most; enum facts_read
 * says whether others may wait. `old_attempt`: what attempts that are over left behind, of which
 * only their results count.
 */
int monitor_read_facts(struct monitor *m, bool old_attempt, int reads, struct err *e);
/* losses.c: a worker has died, as this fact says. What follows is decided at the end of this turn,
 * or of one to come: */
void losses_take(struct monitor *m, const struct fact *f);
/* The watchdog accuses this rank. True: it is a worker that is silent, which its guard was not told
 * to end before; its death is then as any other. */
bool losses_end_silent(struct monitor *m, int rank);
void losses_decide(struct monitor *m, double now);
/* returns.c: workers that died are started again. */
void returns_decide(struct monitor *m, double now);
/* The return of this rank has failed: the control document says so in the next turn. */
void returns_end(struct monitor *m, int rank);
/* facts.c: minibatches follow what the program of this attempt has told, if one has. */
void monitor_take_batch(struct monitor *m);
/* facts.c: the samples that a job which is done has trained on, by its epochs or by the evaluation
 * that reached its target; 0: not known. */
int64_t monitor_planned_samples(const struct monitor *m);
/* facts.c: opens the gate of a restarted attempt that found no checkpoint. */
int monitor_watch_gate(struct monitor *m, struct err *e);

#endif

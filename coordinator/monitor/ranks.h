/* The ranks of an attempt by what they report: rows of steps and heartbeats. Facts are in facts.c.
 *
 * Accounting never depends on rows, which may be dropped: samples, updates and staleness come from
 * the cumulative counters in the heartbeats. Rows feed the charts, the loss and the balancer.
 */
#ifndef COORDINATOR_MONITOR_RANKS_H
#define COORDINATOR_MONITOR_RANKS_H

#include "coordinator/monitor/measure.h"
#include "coordinator/monitor/seals.h"
#include "job/documents/coordinator/bookmark.h"
#include "job/documents/coordinator/plan.h"
#include "job/documents/ranks/beat.h"
#include "job/documents/ranks/departure.h"
#include "store/store.h"

struct rank { /* ranks 0 … workers - 1 train; the keeper and further servers follow */
    char node[DOCUMENT_NODE]; /* "keeper" or "server" if it has no node */
    char device[DOCUMENT_NODE];
    double slowdown;
    json_t *tuning; /* what its device has measured in this attempt or before, or NULL; owned */
    bool overfull;  /* its first minibatch did not fit its memory, so the next attempt must have a
                       smaller one */

    /* what it reports: */
    bool heard;                    /* a heartbeat of this attempt has come */
    struct beat beat;              /* the newest; all 0 before */
    int64_t stray_at;              /* when the last dropped heartbeat was counted */
    int64_t rows;                  /* rows of this attempt */
    bool cold;                     /* the newest row is one of its first steps */
    int64_t last_step, last_local; /* of the newest row; -1, 0: none has come. last_local -1: not
                                      known, an earlier coordinator read it */
    int batch;                     /* of the newest row, or of the plan */
    struct step_times times;
    struct thinned points; /* rows since the last event */

    /* its death: */
    bool silent; /* its heartbeats stand still, so its guard is asked to kill it */
    bool fallen; /* its process has died, and it is not decided whether the others can go on */
    bool lost;   /* its process has died, and the others must go on without it */
    bool left;   /* the others go on without it; `beat` has the keeper's counters of it */
    char how[DOCUMENT_MESSAGE]; /* how it died: "exited on signal 9 (Killed)"; "": it runs */
    int64_t rows_gone;          /* rows that its earlier processes had not sent when they died */

    /* its return: */
    int seats;         /* how often it was started again */
    int tries;         /* how often since it last ran for long */
    bool joining;      /* it is being started again; `lost` and `left` are still true */
    bool fell_early;   /* the process that was started again died before it had come back */
    bool stays_out;    /* it is not started again any more */
    double back_at;    /* when it will be started again; 0: not known, as below */
    double joining_at; /* when it was started again */
    double there_at;   /* when it came back */
    int64_t warm_at;   /* with so many rows its steps are judged by those before; until then by
                          first steps */
};

/* Kinds of reports that are dropped. They belong to another attempt, are damaged, are not sealed
 * with their rank's key, or came before. */
enum dropped { DROPPED_FACT, DROPPED_BEAT, DROPPED_ROWS };
enum { DROPPED_KINDS = DROPPED_ROWS + 1 };

struct ranks {
    struct sender ours;  /* job and attempt */
    struct seals *seals; /* borrowed */
    int workers, servers;
    struct rank *all;          /* [workers + servers]; owned */
    const char **names;        /* [workers] nodes, into `all`; owned */
    struct recent_rows recent; /* of all workers */
    struct departure *left;    /* [n_left], room for `workers`; owned */
    int n_left;
    double coldest; /* seconds of the longest of the first steps that workers made; 0: none came */
    int64_t step;   /* the largest of any rank */
    double epoch;
    int64_t dropped[DROPPED_KINDS]; /* how many reports were */
};

/* `seals` is borrowed until ranks_close(). */
int ranks_open(struct ranks *r, const struct plan *plan, struct seals *seals, struct err *e);
void ranks_close(struct ranks *r); /* also after a failed ranks_open() */

int ranks_count(const struct ranks *r); /* workers and servers */
/* Takes a row of a worker of this attempt. False: it came before. */
bool ranks_see_row(struct ranks *r, const struct row *row);
/* Reads the newest heartbeat of every rank. */
int ranks_read_beats(struct ranks *r, struct store *store, struct err *e);
/* Counts a report that is dropped. Logs the first one of its kind, the second, the fourth, … */
void ranks_drop(struct ranks *r, enum dropped kind, const struct sender *from, const char *why);

/* Write rows_gone of each rank to the bookmark, and read them from one of this attempt. Read before
 * any row is. */
void ranks_note(const struct ranks *r, struct bookmark *out);
void ranks_resume(struct ranks *r, const struct bookmark *from);
/* The keeper reports that the others go on without a worker. Takes over what `left` owns, and
 * leaves it empty. False: there is no such worker, or it has left before. */
bool ranks_leave(struct ranks *r, struct departure *left);
/* The keeper reports that a worker has come back, with its counters. False: it had not left. */
bool ranks_return(struct ranks *r, const struct departure *back);
bool ranks_ever_left(const struct ranks *r); /* was any worker lost, or started again? */
/* Is every rank that is alive past the start, which all ranks make together? */
bool ranks_started(const struct ranks *r);
/* Has every rank that is alive loaded its data, while one of them still prepares its first step? */
bool ranks_prepare(const struct ranks *r);
int ranks_fallen(const struct ranks *r); /* the lowest rank that is `fallen`; -1: none */
int ranks_alive(const struct ranks *r);  /* the number of workers that are not lost */
int ranks_first(const struct ranks *r);  /* the lowest of them */
bool ranks_done(const struct ranks *r);  /* has every rank that is not lost reported its end? */

/* Did a worker begin a step `ago` seconds before that takes longer than its steps usually do, or
 * that would take `patience` seconds more if it took as long as they do? */
bool ranks_in_long_step(const struct ranks *r, double ago, double patience);
bool ranks_stepped(const struct ranks *r);    /* has every worker that is not lost made a step? */
int64_t ranks_samples(const struct ranks *r); /* samples of the updates that count */
/* Call it when the run has ended well and all rows are read. Samples that the keeper has counted
 * and no worker has reported belong to workers that died before their last heartbeat. This credits
 * them with these samples, and with as many rows_gone. */
void ranks_credit(struct ranks *r);
int64_t ranks_rows_lost(const struct ranks *r); /* rows that ranks could not send */
/* The longest deadline of a step over all workers, seconds; `unknown`: of one without steps. */
double ranks_slowest_deadline(const struct ranks *r, double unknown);
/* The longest of those that were measured; 0: none was. */
double ranks_measured_deadline(const struct ranks *r);
int ranks_quantum(const struct ranks *r); /* minibatches are multiples of it */

#endif

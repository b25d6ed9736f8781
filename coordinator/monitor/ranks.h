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

struct rank { /* ranks 0 … workers - 1 train, the keeper and further servers follow */
    char node[DOCUMENT_NODE]; /* "keeper", "server" where it has none */
    char device[DOCUMENT_NODE];
    double slowdown;
    json_t *tuning;   /* what its device measured, in this attempt or before, or NULL; owned */
    bool heard;       /* a heartbeat of this attempt came: */
    struct beat beat; /* the newest; its counters are 0 before */
    int64_t stray_at; /* when the dropped heartbeat came that was counted last */
    int64_t rows;     /* of this attempt */
    int64_t last_step, last_local; /* of the newest of them */
    int batch;                     /* of the newest of them, or of the plan */
    struct step_times times;
    struct thinned points; /* rows since the last event */
    bool fallen; /* its process died, and it is not known yet whether the others can go on */
    char how[DOCUMENT_MESSAGE]; /* it died: "exited on signal 9 (Killed)" */
    bool silent;                /* it gives no sign of life: its guard is to end it */
    bool lost;                  /* its process died, and the others are to go on without it */
    bool left;                  /* the server has dropped it, and the others go on; `beat` has the
                                   server's counters of it */
    int seats;                  /* how often it was started again, so far, */
    int tries;                  /* and since it was last there for long */
    bool joining;               /* it is being started again and is not there yet; still `lost` and
                                   `left` */
    bool fell_early;            /* the process that was started again died before its return was
                                   told */
    bool stays_out;             /* it is not started again */
    double back_at, joining_at; /* back_at: when it is to be started again; joining_at: since when
                                   it is awaited; 0: not known */
    double there_at;            /* since when it is there again, as far as is known; 0: it is not */
    int64_t rows_gone;          /* that its processes before this one had not sent yet */
    bool overfull; /* its first minibatch did not fit its memory: the next attempt must know the
                      limit */
};

/* What is dropped: not of this attempt, damaged, not sealed with its rank's key, or seen before. */
enum dropped { DROPPED_FACT, DROPPED_BEAT, DROPPED_ROWS };
enum { DROPPED_KINDS = DROPPED_ROWS + 1 };

struct ranks {
    struct sender ours;  /* job and attempt */
    struct seals *seals; /* borrowed */
    int workers, servers;
    struct rank *all;   /* [workers + servers]; owned */
    const char **names; /* [workers] nodes, into `all`; owned */
    struct recent_rows recent;
    struct departure *left; /* [n_left] of at most `workers`; owned */
    int n_left;
    int64_t step; /* the furthest of any rank */
    double epoch;
    int64_t dropped[DROPPED_KINDS];
};

/* `seals` outlives the ranks. */
int ranks_open(struct ranks *r, const struct plan *plan, struct seals *seals, struct err *e);
void ranks_close(struct ranks *r); /* also after a failed ranks_open() */

int ranks_count(const struct ranks *r); /* workers and servers */
/* Takes a row of a worker of this attempt; false: it was seen before. */
bool ranks_see_row(struct ranks *r, const struct row *row);
int ranks_read_beats(struct ranks *r, struct store *store, struct err *e);
/* Counts what is not taken, by kind, and logs it at the first time of its kind, the second, the
 * fourth … */
void ranks_drop(struct ranks *r, enum dropped kind, const struct sender *from, const char *why);

/* What is known of the rows that lost workers had not sent: for the bookmark, and out of one of
 * this attempt, before any row is read. */
void ranks_note(const struct ranks *r, struct bookmark *out);
void ranks_resume(struct ranks *r, const struct bookmark *from);
/* The server goes on without a worker: takes the departure over and leaves an empty one. False:
 * there is no such worker, or its departure is known. */
bool ranks_leave(struct ranks *r, struct departure *left);
/* A worker that had left is there again. `back`: what the server knows of it. False: it had not
 * left.
 */
bool ranks_return(struct ranks *r, const struct departure *back);
bool ranks_ever_left(const struct ranks *r); /* was any worker lost, or started again? */
/* Is every rank that is alive past the start, which all ranks make together? */
bool ranks_started(const struct ranks *r);
/* Has every rank that is alive loaded its data, while one of them still prepares its first step? */
bool ranks_prepare(const struct ranks *r);
int ranks_fallen(const struct ranks *r); /* the lowest rank that is `fallen`; -1: none is */
int ranks_alive(const struct ranks *r);  /* workers that are not lost */
int ranks_first(const struct ranks *r);  /* the lowest of them */
bool ranks_done(const struct ranks *r);  /* has every rank that is not lost reported its end? */

/* Is a worker in a step, begun `ago` seconds before, that takes longer than its steps do, or that
 * would last `patience` seconds more if it took as long as they do? */
bool ranks_in_long_step(const struct ranks *r, double ago, double patience);
bool ranks_stepped(const struct ranks *r);    /* every worker that is not lost has made a step */
int64_t ranks_samples(const struct ranks *r); /* of the job's surviving updates */
/* The run has ended well, and all rows are read: what the keeper counts in its last state and no
 * worker told is of those that died before their last heartbeat, and so are the rows of it. */
void ranks_credit(struct ranks *r);
int64_t ranks_rows_lost(const struct ranks *r); /* that ranks could not send */
double ranks_slowest_deadline(const struct ranks *r, double unknown); /* of a step, seconds */
int ranks_quantum(const struct ranks *r); /* minibatches are multiples of it */

#endif

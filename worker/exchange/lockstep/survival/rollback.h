/* A copy of the last point at which all replicas were equal. In strategies that average, replicas
 * differ between averages. When a worker is lost, the others return to this point
 * (docs/decisions/0036).
 *
 *      step      8    9    10   11   12
 *      rank 0    █────┼────┼────┼──╳           █ average over all: copied
 *      rank 1    █────┼────┼──╳                ╳ undone, since a worker is lost
 *      rank 2    █────┼──╳ ◄── killed
 *      then      █────┼────┼────┼────█         the same samples, cut anew for ranks 0 and 1
 *
 * The steps that a lost worker made since then are in no other replica, or in those of its group
 * only. So only the last average over all is complete. hpsgd sums the gradients of each round while
 * the next round trains; there the point lies one round back (docs/decisions/0050).
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ROLLBACK_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ROLLBACK_H

#include "worker/exchange/lockstep/steps/lockstep.h"

struct rollback {
    struct lockstep *l; /* borrowed */
    bool by_rounds;     /* hpsgd: the copy lies before the round whose sum is under way */
    float *params, *optim, *stats; /* [as the replica's blocks] the copy; owned */
    struct lockstep_mark mark;     /* where `l` stood when it was made */
    int64_t averages;              /* copies made so far, the first one included */
    struct told {
        int64_t rows, steps, samples; /* `rows` also counts steps without samples */
    } told, told_next;                /* rows reported from `mark` to `next`, and after `next` */
    struct lockstep_mark next;        /* by rounds: where the last round ended, whose sum is under
                                         way; else as `mark` */
};

/* Copies the replica, which is in host memory and equal on all workers. NULL: memory ran out. */
struct rollback *rollback_new(struct lockstep *l, bool by_rounds, struct err *e);
void rollback_free(struct rollback *b); /* NULL is allowed, as below but in the last two
                                               and in rollback_begin */
/* Copies the replica after an average over all, when `l` has taken the words of that average. */
void rollback_keep(struct rollback *b);
/* The same on a newcomer, whose replica is the copy of another worker: the number of copies that
 * were made there, and where that worker stood. */
void rollback_begin(struct rollback *b, int64_t averages, const struct lockstep_mark *mark);
/* `l` has evaluated the average and has made no step since. */
void rollback_evaluated(struct rollback *b);
/* By rounds: a round has ended where `l` stands. */
void rollback_round_ended(struct rollback *b);
/* By rounds: the sum of the round before has arrived. w - sum [as the parameters] contains all
 * samples up to `next`, and becomes the copy. */
void rollback_landed(struct rollback *b, const float *w, const float *sum);
/* By rounds: the statistics were merged; copies them. */
void rollback_keep_stats(struct rollback *b);
/* Where replicas keep their steps (past.h): the copy's floats [*n], to be sent or received there.
 *  */
float *rollback_kept(const struct rollback *b, enum dev_block which, size_t *n);
/* The same: a copy that was received becomes the replica; `l` stays where it stands. */
int rollback_take(struct rollback *b, struct err *e);
/* Counts a row that was reported. */
void rollback_count(struct rollback *b, const struct row *row);
/* The replica becomes the copy, and `l` goes back to `mark`. */
int rollback_return(struct rollback *b, struct err *e);
/* The replica was received from a worker that is one average or round further; `l` goes on from
 * there. */
void rollback_advance(struct rollback *b);

#endif

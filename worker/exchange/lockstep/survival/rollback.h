/* The last point at which all replicas were equal. Workers whose replicas differ between averages
 * return to it when one of them is lost (docs/decisions/0036).
 *
 *      step      8    9    10   11   12
 *      rank 0    █────┼────┼────┼──╳           █ average over all: kept
 *      rank 1    █────┼────┼──╳                ╳ lost: what came since then is undone
 *      rank 2    █────┼──╳ ◄── killed
 *      then      █────┼────┼────┼────█         the same samples, cut anew for ranks 0 and 1
 *
 * A lost worker's steps since then are in no other replica outside of its group, so only what all
 * have averaged is complete. With rounds (hpsgd) that is what all have summed, one round behind the
 * current one (docs/decisions/0050). Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ROLLBACK_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_ROLLBACK_H

#include "worker/exchange/lockstep/steps/lockstep.h"

struct rollback {
    struct lockstep *l;            /* borrowed */
    bool by_rounds;                /* what is kept lies before the round that was launched last */
    float *params, *optim, *stats; /* [as the replica's blocks] owned */
    struct lockstep_mark mark;     /* where `l` stood */
    int64_t averages;              /* that were kept, the first one included */
    struct told {
        int64_t rows, steps, samples; /* rows of steps without samples, too */
    } told, told_next;                /* behind the mark, up to `next`, and behind that one */
    struct lockstep_mark next; /* by rounds: where the last round ended, whose sum has not landed;
                                  else the mark */
};

/* The replica, in host memory, is as all others'. NULL: memory ran out. */
struct rollback *rollback_new(struct lockstep *l, bool by_rounds, struct err *e);
void rollback_free(struct rollback *b); /* NULL is allowed, as below but in the last two
                                               and in rollback_begin */
/* The replica is an average over all, and `l` has taken the words that came with it. */
void rollback_keep(struct rollback *b);
/* Of a worker that has come back: the replica is as others have kept it, at this one of their
 * averages, where they stood at *mark. */
void rollback_begin(struct rollback *b, int64_t averages, const struct lockstep_mark *mark);
/* `l` stands at the kept average still, and has evaluated it. */
void rollback_evaluated(struct rollback *b);
/* By rounds: a round has ended where `l` stands; all have summed the one before it, and w - sum
 * [as the parameters] has all samples before `next`; the replica's statistics were merged. */
void rollback_round_ended(struct rollback *b);
void rollback_landed(struct rollback *b, const float *w, const float *sum);
void rollback_keep_stats(struct rollback *b);
/* Where replicas keep their steps (past.h): the average that is kept, or was received where it is
 * kept, [*n] floats; and the latter becomes the replica, where `l` stands. */
float *rollback_kept(const struct rollback *b, enum dev_block which, size_t *n);
int rollback_take(struct rollback *b, struct err *e);
/* A row was told. */
void rollback_count(struct rollback *b, const struct row *row);
/* The replica and `l` are again as they were kept. */
int rollback_return(struct rollback *b, struct err *e);
/* The replica is what others have kept one average or round later, and `l` goes on from there. */
void rollback_advance(struct rollback *b);

#endif

/* What the files of hpsgd share: hpsgd.c decides what is due and makes steps. hpsgd_rounds.c ends
 * rounds. hpsgd_sum.c launches a round's sum. hpsgd_onward.c goes on without a lost worker where
 * users' programs have made the steps. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_HPSGD_PARTS_H
#define WORKER_EXCHANGE_LOCKSTEP_HPSGD_PARTS_H

#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/round_length.h"
#include "worker/exchange/lockstep/survival/survival.h"
#include "worker/exchange/lockstep/steps/weights.h"

struct hpsgd {
    struct strategy base;
    struct lockstep l;
    size_t n, n_stats;
    float *w;        /* [n] the parameters at this round's start, the same on all ranks */
    float *g;        /* [n] this rank's part of the round's G, times rate and share */
    float *flying;   /* [n + n_stats + words + W] the sum under way: G, statistics, words, times of
                        reductions */
    float *launched; /* [n_stats] this rank's statistics when they were launched */
    struct allreduce sum;
    struct survival *survival; /* NULL: a lost worker ends the run */
    bool keeps;                /* it keeps its steps when a worker is lost, because a user's program
                                  made them. Then: */
    float *mine;               /* [n] this rank's part of the sum under way */
    float *spare;              /* [as flying] the sum before the one that is under way or was
                                  launched last */
    int64_t *counts;           /* [workers] samples of each in the last step */
    int64_t *counts_then;      /* [workers] the same when the sum under way was first launched */
    struct round_sums sums;    /* read by `survival` */
    bool ends_round;           /* the sum that is merged now ends a round; it is not merged for a
                                  state or at the end */
    struct weighing weighing;  /* for the sum: whose programs have left */
    bool leaves;               /* this rank's program has left */
    bool in_flight;            /* launched and not merged */
    bool landed;               /* the sum has ended */
    bool restored;             /* the sum is a checkpoint's and brings no statistics */
    bool gathered;             /* g holds a round's gradients that were not launched */
    int64_t round;             /* rounds since the start of this attempt, or since a worker was
                                  lost */
    int given_k;               /* 0: auto */
    int k, done;               /* local steps of this round, and how many of them are done */
    struct round_length length;
    int64_t first_step; /* the step since which `round` counts */
    double step_seconds, reduction_seconds;
    double weight, samples; /* weight of this rank's gradients in the round; planned samples of all
                               ranks */
    double flying_samples;  /* `samples` of the sum under way, and */
    double flying_weight;   /* `weight` */
};

/* All return 0 or more, or a negative error code with e set. */

/* ---- hpsgd_sum.c ----------------------------------------------------------------------------- */

/* Allocates what `keeps` needs. Call it after `flying` is allocated, which has `all` floats. */
int hpsgd_keep(struct hpsgd *s, size_t all, struct err *e);
/* Launches the sum of the last round's gradients; round 0 has none. */
int hpsgd_launch(struct hpsgd *s, struct err *e);
/* Launches the sum under way once more, over the remaining workers. */
void hpsgd_launch_again(struct hpsgd *s);
/* The sum under way has ended. Returns 0, or the error where some programs have left. */
int hpsgd_landed(struct hpsgd *s, struct err *e);
/* The words after the sum. */
static inline float *hpsgd_words(const struct hpsgd *s)
{
    return s->flying + s->n + s->n_stats;
}

/* ---- hpsgd_onward.c: with `keeps` ------------------------------------------------------------ */

/* See survival_arrive(). */
int hpsgd_arrive(struct hpsgd *s, enum meeting what, struct err *e);
/* Before a step: goes on without a worker that was lost. */
int hpsgd_look(struct hpsgd *s, struct err *e);
/* Call it with the result `rc` of an exchange. Returns enum recovered. */
int hpsgd_go_on(struct hpsgd *s, int rc, struct err *e);
/* May a state be written here? Not while samples of a lost worker are still to come; then what was
 * agreed on waits. */
bool hpsgd_has_place(struct hpsgd *s);

/* ---- hpsgd_rounds.c -------------------------------------------------------------------------- */

/* Waits for the sum under way. */
int hpsgd_land(struct hpsgd *s, struct err *e);
/* The same; then updates w with the sum and makes w the replica. Without a sum w stays: round 0
 * ends where it began. */
int hpsgd_merge(struct hpsgd *s, struct err *e);
int hpsgd_end_round(struct hpsgd *s, struct err *e);
/* The last round is reduced too. */
int hpsgd_drain(struct hpsgd *s, struct err *e);
/* Ends the rounds of a program that would not make the next step, as at the run's end. */
int hpsgd_leave(struct hpsgd *s, struct err *e);

#endif

/* What the files of hpsgd share: hpsgd.c says what is due and makes steps, hpsgd_rounds.c ends
 * rounds, hpsgd_onward.c goes on without a lost worker where users' programs have made the steps,
 * hpsgd_sum.c launches a round's sum. */
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
    float *w;        /* [n] at this round's start, the same on all ranks */
    float *g;        /* [n] this rank's part of the round's G, rate and share included */
    float *flying;   /* [n + n_stats + words + W] the sum under way: G, statistics, words, times of
                        reductions */
    float *launched; /* [n_stats] this rank's statistics when they were launched */
    struct allreduce sum;
    struct survival *survival; /* NULL: a lost worker ends the run */
    bool keeps;                /* its steps when one is lost: those of a user's program. Then: */
    float *mine;               /* [n] this rank's part of the sum under way */
    float *spare;              /* [as flying] the sum before the one under way, or launched last */
    int64_t *counts;           /* [workers] samples of each in the step that was made last */
    int64_t *counts_then;      /* [workers] the same when the sum under way was launched first */
    struct round_sums sums;    /* which `survival` looks at */
    bool ends_round;           /* what is merged now, and not a state's or the last one's */
    struct weighing weighing;  /* of the sum: whose programs have left */
    bool leaves;               /* this rank's has */
    bool in_flight;            /* launched and not merged */
    bool landed;               /* it needs no waiting */
    bool restored;             /* it is a checkpoint's and brings no statistics */
    bool gathered;             /* g holds a round's gradients that were not launched */
    int64_t round;             /* since the start of this attempt, or since a worker was lost */
    int given_k;               /* 0: auto */
    int k, done;               /* local steps of this round; done of them */
    struct round_length length;
    int64_t first_step; /* since `round` is counted */
    double step_seconds, reduction_seconds;
    double weight, samples; /* of this rank's gradients in the round; planned, of all ranks */
    double flying_samples;  /* `samples` of the sum under way, and */
    double flying_weight;   /* `weight` */
};

/* All return 0 or more, or a negative error code with e set. */

/* ---- hpsgd_sum.c ----------------------------------------------------------------------------- */

/* Room for what `keeps` asks for; after `flying`, which has `all` floats. */
int hpsgd_keep(struct hpsgd *s, size_t all, struct err *e);
/* Launches the sum of the last round's gradients; round 0 has none. */
int hpsgd_launch(struct hpsgd *s, struct err *e);
/* Launches the sum under way once more, of those that are left. */
void hpsgd_launch_again(struct hpsgd *s);
/* The sum under way is there: 0, or what the programs' leaving makes of it. */
int hpsgd_landed(struct hpsgd *s, struct err *e);
/* The words behind the sum. */
static inline float *hpsgd_words(const struct hpsgd *s)
{
    return s->flying + s->n + s->n_stats;
}

/* ---- hpsgd_onward.c: with `keeps` ------------------------------------------------------------ */

/* As survival_arrive(). */
int hpsgd_arrive(struct hpsgd *s, enum meeting what, struct err *e);
/* Before a step: goes on without a worker that was lost. */
int hpsgd_look(struct hpsgd *s, struct err *e);
/* After an exchange that ended with `rc`: enum recovered. */
int hpsgd_go_on(struct hpsgd *s, int rc, struct err *e);
/* May a state be written here? Where samples of a lost worker are still to come, what was agreed on
 * waits. */
bool hpsgd_has_place(struct hpsgd *s);

/* ---- hpsgd_rounds.c -------------------------------------------------------------------------- */

/* Waits for the sum under way. */
int hpsgd_land(struct hpsgd *s, struct err *e);
/* The same, updates w with it, and makes w the replica. Without a sum w stays: round 0 ends where
 * it began. */
int hpsgd_merge(struct hpsgd *s, struct err *e);
int hpsgd_end_round(struct hpsgd *s, struct err *e);
/* The last round is reduced too. */
int hpsgd_drain(struct hpsgd *s, struct err *e);
/* The program would not make the step that is due: its rounds end, as at the run's end. */
int hpsgd_leave(struct hpsgd *s, struct err *e);

#endif

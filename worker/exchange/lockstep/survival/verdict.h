/* What workers and keeper say to each other when a worker is lost (docs/decisions/0022, 0029) or
 * comes back (0062), and how the keeper decides from which step they go on.
 *
 *      keeper   ── asks: who takes part ──► each worker that does
 *      worker   ── stands at step s ──► keeper
 *      keeper   ── decides: step, giver, who is behind, minibatches ──► each of them
 *      giver    ── replica, or sums of the step, words ──► those behind
 *
 * In lockstep nobody makes a step that another has not reached, so the ranks stand at one step or
 * at two neighbouring ones. Those that did not end step s, of which others have the sums, get its
 * result; if nobody has, all make it anew. One that comes back stands nowhere, and gets everything.
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_VERDICT_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_VERDICT_H

#include "worker/exchange/lockstep/survival/members.h"

enum { TAG_STATE = 10, TAG_BLOCK, TAG_PARAMETERS, TAG_VERDICT, TAG_GIFT };

/* ---- from a worker to the keeper: TAG_STATE -------------------------------------------------- */

enum saying {
    SAYS_STATE,
    SAYS_OWN,
    SAYS_STANDING,
    SAYS_FINISHED,
    SAYS_READY /* it was let in, and reaches those that take part */
};

struct state_head { /* of a state that the first worker gives to the keeper; its blocks follow */
    int64_t version, applied;
    struct cursor cursor;
    int64_t n_params, n_optim, n_stats;
    double accuracy, loss;
    int32_t why;     /* enum save_why */
    int32_t outcome; /* enum run_outcome: RUN_GOES_ON, or what serve() returns after this state */
};

struct own_word {    /* of this worker's own state, which follows (own_state.h) */
    int64_t version; /* of the state that it belongs to, */
    int32_t why;     /* and its enum save_why: a checkpoint and the last state may be of one step */
};

struct standing {
    int32_t round;     /* as it was asked; at the end, as it knows */
    int16_t torn;      /* its replica is not usable: the giver was lost while it sent */
    int16_t is_new;    /* it has come back, and has made no step */
    int64_t step;      /* the last that its replica has; of replicas that differ between averages,
                          of the last average */
    int64_t averages;  /* of those: how many it has, in this attempt; else 0 */
    int64_t exchanges; /* since that step, where users' programs make several passes over it: their
                          sums, and answers to whether one more follows */
    int64_t evaluated; /* 1: the parameters of that step, or average, were evaluated; where rounds
                          keep their steps, how many evaluations there were */
    uint64_t digest;   /* of the replica, at the end of a run that lost a worker */
    struct tally {
        int64_t steps, samples;
    } lost[LOST_MOST]; /* [n_lost] what they had made by then, in this attempt */
    /* Where replicas keep their steps and are averaged inside groups: the first worker of this
     * one's group, how often it has averaged since the last average over all, and the last step
     * [n_lost] of each lost worker of the group that is in that; 0: none is. */
    int32_t group, group_averages;
    int64_t held[LOST_MOST];
    int64_t made; /* and the last step that this worker has made */
};

struct worker_word {
    int32_t saying, rank;
    union {
        struct state_head state;
        struct own_word own;
        struct standing standing;
    };
};

/* ---- from the keeper to a worker: TAG_VERDICT ------------------------------------------------ */

enum keeper_saying {
    KEEPER_LETS_IN, /* a worker that has come back; it is to reach those that take part */
    KEEPER_ASKS,
    KEEPER_DECIDES,
    KEEPER_ENDS /* the run; to one that was to join: it does not */
};
enum { IS_BEHIND = 1, IS_NEW, LACKS_EVALUATION };

struct verdict {
    int32_t saying;
    struct members members;
    /* KEEPER_DECIDES */
    int64_t step;          /* all are behind it from now on, */
    int64_t exchanges;     /* and behind these of it (struct standing) */
    int32_t evaluated;     /* it was evaluated */
    int32_t giver;         /* gives those that are behind the state at that step */
    int32_t first_changed; /* another one speaks for the workers since the last verdict */
    int32_t version;       /* of the assignment: */
    int32_t sizes[SPEC_WORKERS];
    double best;                  /* score of the best artifact */
    int64_t held[LOST_MOST];      /* [n_lost] the largest that those who are left tell */
    int64_t made;                 /* the last step that one of them has made */
    uint8_t behind[SPEC_WORKERS]; /* 0, IS_BEHIND, …; LACKS_EVALUATION: it has the step's result */
};

/* Fills step, evaluated, giver, behind, held and made from what the n ranks left[] say in of[rank].
 * ERR_PEER: nobody has a state, or they are further apart than lockstep allows. */
int verdict_decide(struct verdict *v, const struct standing *of, const int *left, int n,
                   struct err *e);

#endif

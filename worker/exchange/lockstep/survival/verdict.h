/* The messages between workers and keeper when a worker is lost (docs/decisions/0022, 0029) or
 * comes back (0062), and the rule by which the keeper decides from which step they go on.
 *
 *      keeper   ── asks: who takes part ──► each worker that does
 *      worker   ── stands at step s ──► keeper
 *      keeper   ── decides: step, giver, who is behind, minibatches ──► each of them
 *      giver    ── replica, or sums of the step, words ──► those behind
 *
 * In lockstep no worker can end step s + 1 before all have ended step s. So all workers have ended
 * the same step, or some have ended one step more. In the second case the others are behind: they
 * get the result of that step from a worker that has it, the giver. In the first case all make the
 * next step anew. A worker that comes back has nothing and gets the whole state.
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_VERDICT_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_VERDICT_H

#include "worker/exchange/lockstep/survival/members.h"

enum { TAG_STATE = 10, TAG_BLOCK, TAG_PARAMETERS, TAG_VERDICT, TAG_GIFT };

/* ---- from a worker to the keeper: TAG_STATE -------------------------------------------------- */

enum saying {
    SAYS_STATE, /* a struct state_head, and then blocks: for a checkpoint, an artifact, the end */
    SAYS_OWN,   /* a struct own_word, and then the state of its program */
    SAYS_STANDING, /* a struct standing: the answer to KEEPER_ASKS */
    SAYS_FINISHED, /* the same, when it has made the last step */
    SAYS_READY     /* a newcomer has connected to all members */
};

struct state_head { /* before the state that the first worker gives to the keeper */
    int64_t version, applied;
    struct cursor cursor;
    int64_t n_params, n_optim, n_stats;
    double accuracy, loss;
    int32_t why;     /* enum save_why */
    int32_t outcome; /* enum run_outcome: RUN_GOES_ON, or what serve() returns after this state */
};

struct own_word {    /* before this worker's own state (own_state.h) */
    int64_t version; /* the state_head.version and .why of the state to which it belongs: */
    int32_t why;     /* a checkpoint and the last state may have the same version */
};

struct standing {      /* where a worker stands */
    int32_t round;     /* members.round of the question; of SAYS_FINISHED, the last that it heard */
    int16_t torn;      /* its replica is not usable, because the giver was lost while it sent */
    int16_t is_new;    /* it has come back and has made no step */
    int64_t step;      /* last step that its replica has. Strategies that average: the step of the
                          last average */
    int64_t averages;  /* averages that it has made in this attempt; 0 for other strategies */
    int64_t exchanges; /* further exchanges since `step`, where users' programs make several passes
                          over a step: sums, and answers to the question whether a pass follows */
    int64_t evaluated; /* 1: it has evaluated the parameters of `step`. Where rounds keep their
                          steps: the number of evaluations */
    uint64_t digest;   /* of the replica, at the end of a run that lost a worker */
    struct tally {
        int64_t steps, samples;
    } lost[LOST_MOST]; /* [n_lost] what each lost worker had made up to `step` in this attempt */
    /* Where replicas keep their steps (past.h): */
    int32_t group;           /* first rank of this worker's group */
    int32_t group_averages;  /* averages of the group since the last one over all */
    int64_t held[LOST_MOST]; /* [n_lost] last step of each lost worker that an average of this group
                                contains; 0: none */
    int64_t made;            /* last step that this worker has made */
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
    KEEPER_LETS_IN, /* to a worker that has come back: connect to the members */
    KEEPER_ASKS,    /* where do you stand? */
    KEEPER_DECIDES, /* this is the step, and these are the members */
    KEEPER_ENDS     /* the run is over; to a newcomer: it goes on without you */
};
enum {
    IS_BEHIND = 1,   /* lacks the result of the step */
    IS_NEW,          /* has come back, and lacks everything */
    LACKS_EVALUATION /* has the step and not its evaluation */
};

struct verdict {
    int32_t saying;
    struct members members;
    /* of KEEPER_DECIDES: */
    int64_t step;          /* all members go on from the end of this step */
    int64_t exchanges;     /* and from the end of so many further exchanges (struct standing) */
    int32_t evaluated;     /* the giver has evaluated that step */
    int32_t giver;         /* the rank that sends its state to those that are behind */
    int32_t first_changed; /* the lowest member is another one than at the last verdict */
    int32_t version;       /* the new assignment, and its minibatches: */
    int32_t sizes[SPEC_WORKERS];
    double best;                  /* score of the best artifact so far */
    int64_t held[LOST_MOST];      /* [n_lost] the largest standing.held of the members */
    int64_t made;                 /* the largest standing.made of the members */
    uint8_t behind[SPEC_WORKERS]; /* what each rank lacks: IS_BEHIND, … ; 0: nothing */
};

/* Fills step, exchanges, evaluated, giver, behind, held and made from of[rank], the standings of
 * the n members left[]. ERR_PEER: nobody has a usable state, or they are more than one step apart.
 */
int verdict_decide(struct verdict *v, const struct standing *of, const int *left, int n,
                   struct err *e);

#endif

/* The keeper's part when a worker is lost or comes back (verdict.h has the messages, survival.h the
 * worker's part). The keeper decides, because it makes no steps itself and reads the control
 * document: which workers are lost, which were started again, and the minibatches of the others.
 *
 * A newcomer goes through these states:
 *
 *      started again ─► let in ─► ready: connected to all members ─► all are asked ─► a member
 *
 * The keeper lets in one newcomer at a time, and only while the members make steps.
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVORS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVORS_H

#include "worker/exchange/lockstep/survival/verdict.h"

struct survivors {
    struct rank_env *env;     /* borrowed; env->lost NULL: a lost worker ends the attempt */
    int64_t version, applied; /* of the state from which the attempt began */
    struct members members;   /* of the last question */
    bool asking;              /* the last question is not decided yet */
    int *left, n_left;        /* [n_left] the members, ascending; owned */
    int first;                /* the lowest member at the last verdict */
    int64_t step;             /* the step of the last verdict */
    bool *told;               /* [workers] the coordinator was told that it has left; owned */
    bool *answered;           /* [workers] it has answered the last question; owned */
    bool *finished;           /* [workers] it has made its last step; owned */
    struct tally *made;       /* [workers] what those that have left had made; owned */
    struct standing *of;      /* [workers] the last answer of each; owned */
    struct newcomer {
        int rank, seat; /* rank -1: there is none */
        bool ready;     /* it is connected to all members */
        bool asked;     /* it was asked together with them */
        double looked;  /* comm_now() when `silent` was counted last */
        double silent;  /* seconds since it was asked */
    } comes;
    struct note *notes;      /* messages on their way to workers; owned */
    struct control *control; /* as last read; owned */
};

/* `from` is the state from which the attempt begins; borrowed for the call. ERR_MEMORY. */
int survivors_init(struct survivors *s, struct rank_env *env, const struct run_state *from,
                   struct err *e);
/* Cancels messages that are under way, and frees what *s owns. */
void survivors_release(struct survivors *s);

/* Call it often; it costs little while nothing has changed. Asks the members where they stand if
 * one of them is lost or a newcomer is ready, and lets in a worker that was started again. */
int survivors_look(struct survivors *s, struct err *e);
bool survivors_lost(const struct survivors *s, int rank);
/* Takes SAYS_STANDING, SAYS_FINISHED or SAYS_READY. Decides once all members have answered. best:
 * score of the best artifact so far. ERR_PEER: the workers cannot go on together. */
int survivors_hear(struct survivors *s, const struct worker_word *w, double best, struct err *e);
/* Have all members made their last step? */
bool survivors_finished(const struct survivors *s);
/* Tells all workers that the run is over, so that they end. */
int survivors_end(struct survivors *s, struct err *e);

#endif

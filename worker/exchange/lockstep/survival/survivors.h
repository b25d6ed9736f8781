/* The keeper's half of going on without a lost worker, and with one that has come back (verdict.h;
 * survival.h is the worker's). The keeper is the one that decides, since it makes no step itself
 * and knows what the coordinator asks: who is lost, who is started again, and the minibatches of
 * those who are there.
 *
 *      started again ─► let in ─► ready: it waits at all doors ─► all are asked ─► it takes part
 *
 * Workers join one after the other, and only while all others make steps.
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVORS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVORS_H

#include "worker/exchange/lockstep/survival/verdict.h"

struct survivors {
    struct rank_env *env;             /* borrowed; env->lost NULL: nobody is ever lost */
    int64_t version, applied;         /* of the state from which the attempt began */
    struct members members;           /* as they were asked last */
    bool asking;                      /* and the verdict is still to come */
    int *left, n_left;                /* [n_left] those that take part, ascending; owned */
    int first;                        /* of them, at the last verdict, */
    int64_t step;                     /* which was of this step */
    bool *told, *answered, *finished; /* [workers] its departure; its standing; its end; owned */
    struct tally *made;               /* [workers] of those whose departure was told; owned */
    struct standing *of;              /* [workers]; owned */
    struct newcomer {
        int rank, seat;        /* rank -1: there is none */
        bool ready;            /* it waits for all others to let it in, */
        bool asked;            /* and was asked with them */
        double looked, silent; /* comm_now() of the last look; seconds since it was asked */
    } comes;
    struct note *notes;      /* on their way to workers; owned */
    struct control *control; /* as last read; owned */
};

/* `from`: of where the attempt begins; borrowed for the call. */
int survivors_init(struct survivors *s, struct rank_env *env, const struct run_state *from,
                   struct err *e);
/* Ends what is under way. */
void survivors_release(struct survivors *s);

/* Asks those that take part where they stand, if one is lost or ready to join. Lets in a worker
 * that was started again. Cheap. */
int survivors_look(struct survivors *s, struct err *e);
bool survivors_lost(const struct survivors *s, int rank);
/* Takes a word that tells of no state. Decides once all have answered; best: of the run so far. */
int survivors_hear(struct survivors *s, const struct worker_word *w, double best, struct err *e);
/* Have all that are left made their last step? */
bool survivors_finished(const struct survivors *s);
/* Tells all workers that the run is over, so that they end. */
int survivors_end(struct survivors *s, struct err *e);

#endif

/* The keeper's half of going on without a lost worker (verdict.h; survival.h is the worker's). The
 * keeper is the one that decides, since it makes no step itself and knows what the coordinator
 * asks: who is lost, and the minibatches of those who are left.
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVORS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVORS_H

#include "worker/exchange/lockstep/verdict.h"

struct survivors {
    struct rank_env *env;     /* borrowed; env->lost NULL: nobody is ever lost */
    int64_t version, applied; /* of the state from which the attempt began */
    int round;                /* workers that are lost: */
    int lost[COMM_GENERATIONS];
    int *left, n_left;                /* [n_left] the others, ascending; owned */
    int first;                        /* of them, at the last verdict */
    bool *told, *answered, *finished; /* [workers] its departure; its standing; its end; owned */
    struct standing *of;              /* [workers]; owned */
    struct note *notes;               /* on their way to workers; owned */
    struct control *control;          /* as last read; owned */
};

/* `from`: of where the attempt begins; borrowed for the call. */
int survivors_init(struct survivors *s, struct rank_env *env, const struct run_state *from,
                   struct err *e);
/* Ends what is under way. */
void survivors_release(struct survivors *s);

/* Asks those that are left where they stand, if more workers are lost than before. Cheap. */
int survivors_look(struct survivors *s, struct err *e);
bool survivors_lost(const struct survivors *s, int rank);
/* Takes a word that tells of no state. Decides once all have answered; best: of the run so far. */
int survivors_hear(struct survivors *s, const struct worker_word *w, double best, struct err *e);
/* Have all that are left made their last step? */
bool survivors_finished(const struct survivors *s);
/* Lets them go. */
int survivors_end(struct survivors *s, struct err *e);

#endif

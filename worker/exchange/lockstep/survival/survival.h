/* How a worker of a lockstep strategy goes on when another worker dies (docs/decisions/0022, 0029,
 * 0036) or comes back (0062).
 *
 *      exchange ─► ERR_CANCELLED: others take part ─► survival_recover ─┬─► the strategy's next
 *                      ▲                                                └─► the exchange, once more
 *                      └──────────────────────────────────────────────────────┘
 *
 * The exchange that is under way ends with ERR_CANCELLED. The worker cancels its sums, the keeper
 * decides from which step all go on (verdict.h), and the ring is rebuilt from the new members. What
 * happens to the step depends on who made it:
 *
 *   our own network, one sum a step    the members compute the step again, with new minibatches
 *   a user's program, one sum a step   the members sum their gradients again; the samples of the
 *                                      lost worker come again in later steps
 *   our own network, averages          all return to the last average, or to the last round that
 *                                      all have summed (rollback.h)
 *   users' programs, averages          they keep their steps, and average again (past.h)
 *
 * survivors.h is the keeper's part. Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVAL_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVAL_H

#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/rollback.h"
#include "worker/exchange/lockstep/survival/verdict.h"

struct survival;

/* Can the others go on when a worker is lost? */
bool survival_is_possible(const struct rank_env *env);
/* For strategies with one sum a step; `l` and `g` are borrowed. On a newcomer (rank_env.comes_back)
 * it blocks until the others have let it in; then the replica and `l` are as theirs, and it is a
 * member. NULL: memory ran out, or it was not let in. */
struct survival *survival_new(struct lockstep *l, struct gradients *g, struct err *e);
/* The same for strategies that average replicas, or sum their rounds (by_rounds). Call it last,
 * with replicas that are equal. give_up(ctx) cancels the strategy's sums. taken: the samples that
 * all have taken since the last average, where replicas keep their steps; borrowed, and set on a
 * newcomer. */
typedef int survival_give_up_fn(void *ctx, struct err *e);
struct survival *survival_new_of_averages(struct lockstep *l, bool by_rounds,
                                          survival_give_up_fn *give_up, void *ctx, double *taken,
                                          struct err *e);
void survival_free(struct survival *s); /* NULL is allowed, as below but in survival_finish */

/* The functions that follow tell what this worker has done, so that it can say where it stands and
 * help those that are behind. */

/* The step of `l` is made, with these sums of words. Call it before lockstep_agree(), which may
 * change the minibatches. */
void survival_note(struct survival *s, const float *words);
/* Where users' programs make several passes over a step: a further pass was summed. */
void survival_note_further(struct survival *s);
/* The same: all have answered whether a further pass follows. any: one of them said so. */
void survival_note_answer(struct survival *s, bool any);
/* The last answer. */
bool survival_answer_of_all(const struct survival *s);
/* While it is on, a wait ends with ERR_CANCELLED if a worker is lost or has come back. */
void survival_watch(struct survival *s, bool on);

/* For averages: a step of `l` is made. Call it before lockstep_done(). ERR_MEMORY. */
int survival_count(struct survival *s, struct err *e);
/* A row was reported. */
void survival_told(struct survival *s, const struct row *row);
/* All have averaged, with these sums of words. Call it after lockstep_agree(). */
void survival_averaged(struct survival *s, const float *words);
/* An average was evaluated. */
void survival_evaluated(struct survival *s);
/* Where replicas keep their steps (past.h): an exchange or a step is due. If the keeper has decided
 * that all go on without a lost worker from here, this worker does so. */
enum meeting {
    MEETS_TO_AVERAGE,
    MEETS_TO_SHOW,  /* an average for an evaluation or a checkpoint, which changes no replica */
    MEETS_TO_TELL,  /* the result of an evaluation */
    MEETS_GROUP,    /* an average of its group */
    MEETS_TO_MERGE, /* the sum that is due at a round's end */
    MEETS_NOBODY    /* it is about to begin a step */
};
int survival_arrive(struct survival *s, enum meeting what, struct err *e);
/* On a newcomer: the exchange before which the others stand. */
enum meeting survival_meeting(const struct survival *s);
/* The average of MEETS_TO_SHOW is in the replica. */
void survival_shown(struct survival *s);
/* The average of the group is in the replica. */
void survival_grouped(struct survival *s);
/* The samples that lost workers had in this interval, and that come again; since the last call. */
struct undone {
    double samples, of_group; /* of all workers; of this rank's group since its last average, or of
                                 the current round */
    bool shared;              /* the others of the group keep what the group has averaged */
};
struct undone survival_take_undone(struct survival *s);
/* By rounds, where replicas keep their steps (docs/decisions/0085): the last sum that has arrived,
 * which this rank sends to others, and the sum under way, in whose place it may receive another
 * rank's. */
struct round_sums {
    float *landed, *under_way; /* [n] */
    size_t n;
};
/* `sums` is borrowed; the caller updates it with each sum. */
void survival_lend_sums(struct survival *s, const struct round_sums *sums);
/* Has survival_recover() received the sum that was under way? True once. */
bool survival_took_sum(struct survival *s);
/* By rounds: see the functions of these names in rollback.h. */
void survival_round_ended(struct survival *s);
void survival_landed(struct survival *s, const float *w, const float *sum);
void survival_merged_stats(struct survival *s);
/* Returns -ERR_CANCELLED if a worker is lost or has come back, because what follows would be
 * undone; else 0. */
int survival_look(struct survival *s, struct err *e);

struct survival_step { /* the step of this rank whose exchange did not end */
    const struct work *work;
    double compute_s; /* seconds */
    double ready;     /* comm_now() when its gradients were complete */
};
enum recovered {
    RECOVERED,          /* the exchange is made; go on */
    RECOVERED_ONCE_MORE /* make the same exchange again */
};
/* Call it with the result of each exchange. If rc says that a worker is lost or has come back, it
 * cancels what is under way and does what the keeper decides: enum recovered, or negative. Else it
 * returns rc. step: NULL for averages, evaluations and questions; else the step, or the further
 * pass over it (work.further), which this call completes if other workers had completed it. */
int survival_recover(struct survival *s, int rc, const struct survival_step *step, struct err *e);
/* strategy_ops.finish: the first worker sends the last state to the keeper. If it is lost
 * meanwhile, the next one does, without `optim` (lockstep_finish). Returns when the keeper has the
 * state and all members have finished. */
int survival_finish(struct survival *s, float *optim, size_t n_optim, struct err *e);

#endif

/* A worker of a lockstep strategy that goes on when another one dies (docs/decisions/0022, 0029,
 * 0036), or comes back (0062).
 *
 *      exchange ─► ERR_CANCELLED: others take part ─► survival_recover ─┬─► the strategy's next
 *                      ▲                                                └─► the exchange, once more
 *                      └──────────────────────────────────────────────────────┘
 *
 * The sums under way are cancelled, the keeper says from which step all go on (verdict.h), and the
 * ring is rebuilt without the lost worker, or with the one that has come back. Then there are four
 * cases:
 *
 *   a step can be computed again       next() cuts the same samples by the new minibatches
 *   a user's program computed the      the others sum them once more, and the lost worker's
 *   gradients                          samples come in later steps
 *   replicas differ between averages   all return to the last average, or to the last round that
 *                                      all have summed (rollback.h)
 *   users' programs made the steps     they keep them, and average once more (past.h)
 *
 * survivors.h is the keeper's half. Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVAL_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_SURVIVAL_H

#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/rollback.h"
#include "worker/exchange/lockstep/survival/verdict.h"

struct survival;

/* Whether a lost worker ends the run. */
bool survival_is_possible(const struct rank_env *env);
/* `l` and `g` are borrowed. Of a worker that has come back (rank_env.comes_back): when it returns,
 * as below, the replica and `l` are those of the others, and it takes part. NULL: memory ran out,
 * or it was not let in. */
struct survival *survival_new(struct lockstep *l, struct gradients *g, struct err *e);
/* Of a strategy that averages replicas, or sums their rounds, and they are equal now; give_up: ends
 * its sums. Call it when all else is there. */
typedef int survival_give_up_fn(void *ctx, struct err *e);
/* taken: samples that all have taken since the last average, where replicas keep their steps:
 * borrowed; a worker that has come back gets it. */
struct survival *survival_new_of_averages(struct lockstep *l, bool by_rounds,
                                          survival_give_up_fn *give_up, void *ctx, double *taken,
                                          struct err *e);
void survival_free(struct survival *s); /* NULL is allowed, as below but in survival_finish */

/* The step of `l` was done by these sums of words: notes them for those who miss them, and what
 * each worker made. Before lockstep_agree(), which may change the minibatches. */
void survival_note(struct survival *s, const float *words);
/* Of users' programs that make several passes over that step, where the ranks stand behind it: one
 * more was summed; all have answered whether one more follows, and one has said so or none. */
void survival_note_further(struct survival *s);
void survival_note_answer(struct survival *s, bool any);
/* What they have answered. */
bool survival_answer_of_all(const struct survival *s);
/* Between these two a wait ends if a worker is lost or has come back. */
void survival_watch(struct survival *s, bool on);

/* For averages: a step of `l` was made, before lockstep_done(): 0 or -ERR_MEMORY; its row was told;
 * all have averaged, by these sums of words, after lockstep_agree(); that average, or another one,
 * was evaluated. */
int survival_count(struct survival *s, struct err *e);
void survival_told(struct survival *s, const struct row *row);
void survival_averaged(struct survival *s, const float *words);
void survival_evaluated(struct survival *s);
/* The same, where replicas keep their steps (past.h). An exchange or a step is due; if this worker
 * has come to where the others go on without one that is lost, it does so too. */
enum meeting {
    MEETS_TO_AVERAGE,
    MEETS_TO_SHOW, /* an average that changes no replica */
    MEETS_TO_TELL, /* what was evaluated */
    MEETS_GROUP,
    MEETS_TO_MERGE, /* the sum that is due at a round's end */
    MEETS_NOBODY    /* it is about to begin a step */
};
int survival_arrive(struct survival *s, enum meeting what, struct err *e);
/* Before which one do the others stand that this worker has come back to? */
enum meeting survival_meeting(const struct survival *s);
/* What all have averaged is in the replica, to be shown; or what the group has, to stay. */
void survival_shown(struct survival *s);
void survival_grouped(struct survival *s);
/* What lost workers had of this interval and comes again; since the last call. */
struct undone {
    double samples, of_group; /* of all; of this rank's group since it has averaged last, or of the
                                 round under way */
    bool shared;              /* what the group has averaged counts for those of it that are left */
};
struct undone survival_take_undone(struct survival *s);
/* By rounds, where replicas keep their steps (docs/decisions/0085): the last sum that has landed,
 * which this rank gives, and the one under way, in whose place it may get another one's. */
struct round_sums {
    float *landed, *under_way; /* [n] */
    size_t n;
};
/* Borrowed, and changed with each sum. */
void survival_lend_sums(struct survival *s, const struct round_sums *sums);
/* The sum under way has landed elsewhere, and survival_recover() has got it; once. */
bool survival_took_sum(struct survival *s);
/* By rounds: see rollback.h. */
void survival_round_ended(struct survival *s);
void survival_landed(struct survival *s, const float *w, const float *sum);
void survival_merged_stats(struct survival *s);
/* Has a worker been lost or come back? Then -ERR_CANCELLED, because what follows would be undone;
 * else 0. */
int survival_look(struct survival *s, struct err *e);

struct survival_step { /* of this rank, the one that was not ended */
    const struct work *work;
    double compute_s, ready; /* seconds; comm_now() when its gradients were there */
};
enum recovered { RECOVERED, RECOVERED_ONCE_MORE };
/* After an exchange of this strategy that ended with `rc`: gives what is under way up and does as
 * the keeper decides, if a worker is lost or has come back; else returns rc. RECOVERED: the
 * exchange is made, and the run goes on. RECOVERED_ONCE_MORE: the same exchange is made again.
 * step: NULL if it was an evaluation or a question, and for averages; the step that such an
 * exchange ended, or one more pass over it (work.further), is made if `l` is behind it still. */
int survival_recover(struct survival *s, int rc, const struct survival_step *step, struct err *e);
/* strategy_ops.finish: the last state to the keeper, again by another if the first worker is lost
 * meanwhile, and then without `optim` (lockstep_finish); returns when the keeper has it and all
 * workers are there. */
int survival_finish(struct survival *s, float *optim, size_t n_optim, struct err *e);

#endif

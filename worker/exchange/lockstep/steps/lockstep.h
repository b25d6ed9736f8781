/* What strategies without a parameter server have in common: all ranks go through the same steps,
 * cut each step's samples by the same assignment, and agree by words that travel with a reduction.
 * Rank 0 gives states to the keeper, whose half is here too.
 *
 *   share.c       each rank's part of a step
 *   advance.c     steps that are cut in advance
 *   lockstep.c    steps
 *   agreement.c   the words
 *   sums.c        sums of a few floats; programs that are not at the same place
 *   evaluation.c  evaluations
 *   weights.c     what gradients weigh, where a user's program says it
 *   states.c      states from rank 0 to the keeper
 *
 * Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_STEPS_LOCKSTEP_H
#define WORKER_EXCHANGE_LOCKSTEP_STEPS_LOCKSTEP_H

#include "worker/exchange/agenda.h"
#include "worker/exchange/footprint.h"
#include "worker/exchange/leftovers.h"
#include "worker/exchange/strategy_table.h"
#include "worker/exchange/transport/allreduce.h"

/* Words behind a reduction's floats; then W sizes, then W times. After the sum over ranks every
 * rank knows them. */
enum {
    WORD_LOSS,
    WORD_CORRECT,
    WORD_NOT_READY,
    WORD_VERSION,
    WORD_STOP,
    WORD_PAUSE,
    WORD_CHECKPOINT,
    WORDS
};

/* Behind those, where rank_env.weighed: what this rank's gradient weighs, whether its backward pass
 * failed, whether it is one more pass over a step, whether its program has left in place of the
 * step, its rank + 1 then, and whether it is there. */
enum { WORD_WEIGHT, WORD_VOIDED, WORD_FURTHER, WORD_LEFT, WORD_WHO, WORD_THERE, WEIGHED_WORDS };

/* Steps that were cut in advance (rank_env.ahead): their samples do not change with later
 * assignments. */
struct advance {
    struct cursor cut;     /* behind the last step that was cut */
    int64_t samples;       /* of an epoch */
    int64_t steps;         /* that were cut of the epoch, in this attempt or before */
    struct cursor *behind; /* [1 + ahead] a ring of steps: the cursor behind each; owned, as all */
    struct slice *wholes;  /* [1 + ahead] */
    int64_t *counts;       /* [1 + ahead][workers] of each: samples, and */
    int64_t *starts;       /* [1 + ahead][workers] the position of the first one as it was cut */
    struct part *parts;    /* [1 + ahead] this rank's, the step under way first */
    int first, n, room;    /* of the ring; room 0: nothing is cut in advance */
    bool fresh;            /* its first step was not taken yet */
    struct leftovers left; /* of workers that are lost */
};

/* Where a rank stands between two steps: what goes back when steps are undone. */
struct lockstep_mark {
    struct cursor cursor; /* behind the step under way */
    struct agenda agenda;
    int64_t first;         /* steps that were done when the attempt began */
    int64_t step, applied; /* steps done, samples they took */
    int64_t local_step;    /* steps in which this rank had samples */
    double last_loss, last_accuracy;
    int64_t last_samples; /* of the last evaluation; 0: a user's program has measured nothing */
    bool evaluated_here;  /* this very version was evaluated */
    bool evaluate;        /* an evaluation is due */
    bool stop, pause, checkpoint, target_reached;
    bool left;        /* the programs have made their last step, or epoch */
    bool further;     /* they make more than one backward pass over a step */
    int64_t compared; /* step at which ranks have compared their parameters last (equal.h) */
};

struct lockstep {
    struct rank_env *env; /* borrowed */
    struct lockstep_mark at;
    struct cursor before;   /* the cursor as it was before the step under way */
    double began;           /* comm_now() when the step under way was taken */
    int version;            /* of sizes */
    int next_version;       /* of next_sizes, which are announced; 0: none are */
    bool known;             /* the announced one was known when the words were written */
    bool under_way;         /* a step was taken, and is not done */
    struct slice slice;     /* of the whole step under way */
    const int64_t *counts;  /* [workers] of it, by rank: full or part, or cut before */
    int64_t full_before;    /* samples of lower ranks in a full step */
    int64_t done_count;     /* samples of the step that was done last */
    double done_share;      /* and this rank's part of them */
    struct advance advance; /* where slices are announced in advance */
    struct allreduce sums;  /* of an evaluation */
    float sum_words[7];
    double best; /* the greatest score of an evaluation */
    bool sure;   /* work.sure of the step under way */
    bool asked,
        asked_checkpoint; /* stop, pause or checkpoint in a sure step; the last of them, which
                                     is not agreed yet */
    bool within_step;     /* whose sum is still to be made: a user's program waits for it with the
                         parameters of the step before, and is not to be let go on */
    /* Last, since a step of a simulation with a thousand ranks reads what is above of each. */
    int sizes[SPEC_WORKERS], next_sizes[SPEC_WORKERS];
    float away[SPEC_WORKERS];   /* 1: the program of that rank has ended (absence_provide) */
    int64_t full[SPEC_WORKERS]; /* of a step with the whole global batch */
    int64_t part[SPEC_WORKERS]; /* of an epoch's last step */
};

void lockstep_init(struct lockstep *l, struct rank_env *env, const struct run_state *state);
void lockstep_release(struct lockstep *l);

/* Nothing more will be trained. */
static inline bool lockstep_over(const struct lockstep *l)
{
    return cursor_done(&l->at.cursor) || l->at.target_reached || l->at.left;
}
/* The worker that speaks for all of them: the lowest rank that is left. */
static inline bool lockstep_is_first(const struct lockstep *l)
{
    return l->env->comm->place[COMM_ALL] == 0;
}
/* Do all ranks have the same parameters, of which any can give those of another one? */
static inline bool lockstep_has_copies(const struct lockstep *l)
{
    return l->env->marks > 0 && l->env->comm->workers > 1;
}

/* ---- share.c --------------------------------------------------------------------------------- */

/* sizes[SPEC_WORKERS] are the minibatches from the next step on. */
void lockstep_adopt(struct lockstep *l, int version, const int *sizes);
/* This rank's part of `whole`, cut by the current sizes; *counts: [workers] of all, until the next
 * call. */
struct slice lockstep_part(struct lockstep *l, const struct slice *whole, const int64_t **counts);
/* This rank's share of a step's samples. */
double lockstep_share(const struct lockstep *l);

/* ---- lockstep.c: what comes next ------------------------------------------------------------- */

/* If the job was asked to stop or to pause: true, and *out is DO_STOP or DO_PAUSE. */
bool lockstep_leaves(const struct lockstep *l, struct work *out);
/* The step that was done last may be the run's last one: rank_env.open, at an epoch's end. */
bool lockstep_may_end(const struct lockstep *l);
/* Takes the next step from the cursor: *out is this rank's part of it, or the end. */
void lockstep_train(struct lockstep *l, struct work *out);
/* The step under way is done. */
void lockstep_done(struct lockstep *l);
/* The step under way is not made: the next lockstep_train() cuts it anew. Not with rank_env.ahead.
 */
void lockstep_undo(struct lockstep *l);
/* Where `l` stands without the step under way. */
void lockstep_stand(const struct lockstep *l, struct lockstep_mark *out);
/* Sets `l` to the position of another rank; local_step: steps that this rank has made itself. With
 * rank_env.ahead advance_read() comes after it. */
void lockstep_stand_at(struct lockstep *l, const struct lockstep_mark *of, int64_t local_step);
/* Goes back to where `l` stood when its `at` was copied to *to. Not with rank_env.ahead. */
void lockstep_return(struct lockstep *l, const struct lockstep_mark *to);
/* Evaluations and checkpoints come between rounds: warns where those are longer than the steps
 * between two of them, or than an epoch, so that there are fewer than the job asks for. */
void lockstep_warn_of_few(const struct lockstep *l, int64_t rounds, int64_t steps);
/* The row of a step that is done. It took compute_s seconds to compute, and its exchange began at
 * `since` (comm_now()). Loss and accuracy are those of this rank's slice, if `r` has them.
 * Strategies add their own columns. */
struct row lockstep_row(const struct lockstep *l, const struct work *w, const struct dev_result *r,
                        double compute_s, double since);

/* ---- sums.c ---------------------------------------------------------------------------------- */

/* Sums floats[n], at most 7 or one for each worker, over all ranks. ERR_CANCELLED: a worker was
 * lost or has come back meanwhile; `floats` are in use until survival_recover(). */
int lockstep_sum(struct lockstep *l, float *floats, size_t n, struct err *e);
/* 1 if `mine` is true on any rank, else 0. All ranks ask. */
int lockstep_any(struct lockstep *l, bool mine, struct err *e);
/* A sum ended with rc. If programs of different nodes are at different places, and so other ranks
 * sum something else, an error that says so: ERR_DATA. Else rc. */
int lockstep_sum_failed(const struct lockstep *l, int rc, struct err *e);
/* Adds the remedy for programs that do not make the same backward passes; -ERR_DATA. */
int lockstep_passes_differ(struct err *e);
/* Programs that have left where others have not. who: the sum of their ranks + 1; mine: this rank's
 * is one of them. */
struct left {
    int n, there;
    float who;
    bool mine;
};
/* The error: "the program of rank 1 has left before step 7 and 2 go on: …". ERR_PEER, with its node
 * and last lines, where it is this rank's; else ERR_CANCELLED, an echo of that. */
int lockstep_say_left(const struct lockstep *l, const struct left *left, const char *when,
                      int64_t number, const char *what, struct err *e);
/* The log: the run ends here for this rank's program, which counts its steps anew. */
void lockstep_tell_anew(const struct lockstep *l);

/* ---- evaluation.c ---------------------------------------------------------------------------- */

/* True, and *out is this rank's part of the test set (shared out by speed), if an evaluation is due
 * and there is a test set. */
bool lockstep_evaluates(const struct lockstep *l, struct work *out);
/* Takes the sums of an evaluation of this version, as lockstep_evaluated() does. samples 0: nothing
 * was measured. */
int lockstep_take_evaluation(struct lockstep *l, double loss, double accuracy, int64_t samples,
                             struct err *e);
/* Sums the parts' results over all ranks. Rank 0 reports them, and saves the state if it is the
 * best so far. */
int lockstep_evaluated(struct lockstep *l, const struct work *w, const struct dev_result *r,
                       struct err *e);

/* ---- advance.c ------------------------------------------------------------------------------- */

/* Nothing is cut in advance without rank_env.ahead. -ERR_MEMORY. */
int advance_init(struct lockstep *l);
void advance_release(struct lockstep *l);
/* The next step of the ring is under way: *out is this rank's part, and the parts after it. */
void advance_take(struct lockstep *l, struct work *out);
/* With rank_env.ahead: workers that are lost take no part in the step under way, nor in those that
 * were cut in advance; their samples come again in steps that are cut from now on, and so do those
 * of done[n_done], parts of steps before. ERR_PEER: none follows, as the programs know already. */
int lockstep_lose(struct lockstep *l, const int *lost, int n, const struct slice *done, int n_done,
                  struct err *e);
/* The steps that were cut and not taken, as bytes, for a worker that comes back; the caller
 * releases *out. */
int advance_write(const struct lockstep *l, struct own_state *out, struct err *e);
/* Takes them over: the first of them is the next step. ERR_PEER: they are not of such a job. */
int advance_read(struct lockstep *l, const struct own_state *from, struct err *e);
/* Where a state after the step under way goes on, if it can: all that lies before it is computed by
 * then. */
bool lockstep_place(const struct lockstep *l, struct cursor *out);

/* ---- agreement.c ----------------------------------------------------------------------------- */

size_t lockstep_words(const struct lockstep *l); /* how many */
/* The same of a job with so many workers; `weighed` as in rank_env. */
size_t lockstep_words_of(int workers, bool weighed);
/* Fills words[lockstep_words()]; `time` is this rank's entry among the times. `ahead`: steps that
 * will be done when they are summed. */
void lockstep_write(struct lockstep *l, float *words, double time, int64_t ahead);
/* Takes the sums: adopts what was announced earlier if every rank was ready, and notes what is
 * announced now. */
void lockstep_agree(struct lockstep *l, const float *words);
/* The largest of the ranks' times among the summed words. */
float lockstep_slowest(const struct lockstep *l, const float *words);
/* The smallest of times[workers], of the workers that are left. */
float lockstep_fastest(const struct lockstep *l, const float *times);

/* ---- weights.c ------------------------------------------------------------------------------- */

/* The summed WORD_WEIGHT, …; needs rank_env.weighed. */
const float *lockstep_weighed(const struct lockstep *l, const float *words);
/* Writes this rank's; nothing without rank_env.weighed. */
void lockstep_weigh(const struct lockstep *l, float *words, double weight, bool voided,
                    bool further);
/* What a sum of weight / planned x gradient is multiplied with to be the mean: planned / weight, by
 * the summed words. 0: everything weighs 0, and so is the sum. 1 without rank_env.weighed. */
double lockstep_correct(const struct lockstep *l, const float *words, double planned);

/* ---- states.c -------------------------------------------------------------------------------- */

enum state_sent {
    STATE_SENT,
    STATE_PUT_OFF /* this rank's program has ended, and the keeper writes none without its own */
};
/* Rank 0 gives the keeper a state: the replica's blocks, `optim` in place of its optimizer state if
 * that is not NULL. `outcome` is RUN_GOES_ON, or how the run ended with it. Each rank gives its own
 * state, if it keeps one; other ranks than 0 do nothing else. enum state_sent, or negative. */
int lockstep_send_state(struct lockstep *l, float *optim, size_t n_optim, enum save_why why,
                        enum run_outcome outcome, struct err *e);
/* A checkpoint, if one was asked for. Where a program has ended it is asked for once more, after
 * the next step. */
int lockstep_checkpoint(struct lockstep *l, float *optim, size_t n_optim, struct err *e);
/* The last state, after DO_END, DO_PAUSE or DO_STOP. */
int lockstep_finish(struct lockstep *l, float *optim, size_t n_optim, struct err *e);
/* The keeper's half: strategy_ops.serve. */
int lockstep_serve(struct rank_env *env, const struct run_state *from, struct err *e);

#endif

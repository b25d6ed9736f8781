/* What strategies without a parameter server have in common. All ranks make the same steps and cut
 * each step's samples by the same assignment. They agree on stops, checkpoints and assignments by
 * some floats, the words, that are summed along with the gradients. The first worker sends states
 * to the keeper, whose part is here too.
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

/* The words stand behind the floats of a sum; the W minibatches and the W compute times follow.
 * Each rank writes its own entry of those and zeros elsewhere, so that after the sum all know them.
 *  */
enum {
    WORD_LOSS,
    WORD_CORRECT,
    WORD_NOT_READY,
    WORD_VERSION,
    WORD_STOP,
    WORD_PAUSE,
    WORD_CHECKPOINT,
    WORD_EVALUATE,
    WORDS
};

/* Further words that follow where program.weighed: */
enum {
    WORD_WEIGHT,  /* the weight of this rank's gradient */
    WORD_VOIDED,  /* 1: its backward pass failed */
    WORD_FURTHER, /* 1: it is a further pass over a step */
    WORD_LEFT,    /* 1: its program has left in place of the step */
    WORD_WHO,     /* and then its rank + 1 */
    WORD_THERE,   /* 1: its program is there */
    WEIGHED_WORDS
};

/* A ring of steps that were cut in advance (program.ahead). Later assignments do not change their
 * samples. */
struct advance {
    struct cursor cut;     /* after the last step of the ring */
    int64_t samples;       /* of an epoch */
    int64_t steps;         /* steps of the epoch that were cut, in this attempt or before */
    struct cursor *behind; /* [1 + ahead] the cursor after each step; owned, as all pointers here */
    struct slice *wholes;  /* [1 + ahead] the samples of all ranks */
    int64_t *counts;       /* [1 + ahead][workers] how many of them each rank has */
    int64_t *starts;       /* [1 + ahead][workers] and the position of its first one */
    struct part *parts;    /* [1 + ahead] this rank's parts, from the current step on */
    int first, n, room; /* first step, number of steps, room; room 0: nothing is cut in advance */
    bool fresh;         /* the first step was not taken yet */
    struct leftovers left; /* samples of lost workers */
};

/* Where a rank stands between two steps. To undo steps is to go back to a mark. */
struct lockstep_mark {
    struct cursor cursor; /* after the current step */
    struct agenda agenda;
    int64_t first;         /* steps that were made before this attempt */
    int64_t step, applied; /* steps made, and their samples */
    int64_t local_step;    /* steps in which this rank had samples */
    double last_loss, last_accuracy;
    int64_t last_samples; /* of the last evaluation; 0: a user's program has measured nothing */
    bool evaluated_here;  /* there was no step since the last evaluation */
    bool evaluate;        /* an evaluation is due */
    bool stop, pause, checkpoint, target_reached;
    bool left;        /* the programs have made their last step, or epoch */
    bool further;     /* the programs make several backward passes over a step */
    int64_t compared; /* the step after which ranks compared their parameters last (equal.h) */
};

struct lockstep {
    struct rank_env *env; /* borrowed */
    struct lockstep_mark at;
    struct cursor before;   /* the cursor before the current step */
    double began;           /* comm_now() when the current step was taken */
    int version;            /* of `sizes` */
    int next_version;       /* of `next_sizes`, which were announced; 0: none were */
    bool known;             /* this rank knew the announced ones when it wrote its words */
    bool under_way;         /* a step was taken and is not made yet: the current step */
    struct slice slice;     /* all samples of the current step */
    const int64_t *counts;  /* [workers] and each rank's: `full`, `part`, or cut in advance */
    int64_t full_before;    /* samples of lower ranks in a full step */
    int64_t done_count;     /* samples of the last step */
    double done_share;      /* this rank's part of them */
    struct advance advance; /* steps that were cut in advance */
    struct allreduce sums;  /* for evaluations and lockstep_sum() */
    float sum_words[7];
    double best;           /* the greatest score of an evaluation so far */
    int64_t sure;          /* the steps before this one are sure (work.sure) */
    bool asked;            /* a stop, pause or checkpoint was requested in a sure step */
    bool asked_checkpoint; /* a checkpoint was requested and is not agreed on */
    bool measured;         /* this rank's program has measured something that is not taken yet */
    bool within_step;      /* the sum of the current step is not made yet. A user's program waits
                              for it with the parameters of the step before, and must go on waiting
                              while a state is sent */
    /* At the end, because a simulation of a thousand ranks reads all of the above in each step. */
    int sizes[SPEC_WORKERS], next_sizes[SPEC_WORKERS];
    float away[SPEC_WORKERS];   /* 1: the program of that rank has ended (absence_provide) */
    int64_t full[SPEC_WORKERS]; /* samples of each rank in a step with the whole global batch */
    int64_t part[SPEC_WORKERS]; /* and in an epoch's last step */
};

void lockstep_init(struct lockstep *l, struct rank_env *env, const struct run_state *state);
void lockstep_release(struct lockstep *l);

/* Is there no further step? */
static inline bool lockstep_over(const struct lockstep *l)
{
    return cursor_done(&l->at.cursor) || l->at.target_reached || l->at.left;
}
/* Is this the first worker, the lowest member? It sends evaluations and states to the keeper. */
static inline bool lockstep_is_first(const struct lockstep *l)
{
    return l->env->comm->place[COMM_ALL] == 0;
}
/* Do all ranks have the same parameters, so that any can send them to another one? */
static inline bool lockstep_has_copies(const struct lockstep *l)
{
    return l->env->program.marks > 0 && l->env->comm->workers > 1;
}

/* ---- share.c --------------------------------------------------------------------------------- */

/* Uses the minibatches sizes[SPEC_WORKERS] from the next step on. */
void lockstep_adopt(struct lockstep *l, int version, const int *sizes);
/* Cuts `whole` by the current sizes and returns this rank's part. *counts [workers]: the samples of
 * each rank; valid until the next call. */
struct slice lockstep_part(struct lockstep *l, const struct slice *whole, const int64_t **counts);
/* This rank's share of a step's samples. */
double lockstep_share(const struct lockstep *l);

/* ---- lockstep.c: what comes next ------------------------------------------------------------- */

/* If all have agreed to stop or to pause: true, and *out is DO_STOP or DO_PAUSE. */
bool lockstep_leaves(const struct lockstep *l, struct work *out);
/* May the last step be the run's last one? With program.open it may at each epoch's end. */
bool lockstep_may_end(const struct lockstep *l);
/* Takes the next step: *out is this rank's part of it, or DO_END. */
void lockstep_train(struct lockstep *l, struct work *out);
/* The current step is made. */
void lockstep_done(struct lockstep *l);
/* The current step is not made; the next lockstep_train() cuts it anew. Not with program.ahead. */
void lockstep_undo(struct lockstep *l);
/* *out becomes the mark before the current step. */
void lockstep_stand(const struct lockstep *l, struct lockstep_mark *out);
/* Sets `l` to another rank's mark; local_step: the steps that this rank has made itself. With
 * program.ahead advance_read() follows. */
void lockstep_stand_at(struct lockstep *l, const struct lockstep_mark *of, int64_t local_step);
/* Goes back to *to, an earlier copy of `at`. Not with program.ahead. */
void lockstep_return(struct lockstep *l, const struct lockstep_mark *to);
/* Evaluations and checkpoints are made between rounds. Logs a warning where rounds of so many steps
 * are longer than the interval that the job asks for, or than an epoch. */
void lockstep_warn_of_few(const struct lockstep *l, int64_t rounds, int64_t steps);
/* The row of a step that was made. It took compute_s seconds to compute, and its exchange began at
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
/* Call it with the result rc of a sum. If the programs of different nodes do different things, so
 * that the ranks sum different things: -ERR_DATA, with an error that says so. Else rc. */
int lockstep_sum_failed(const struct lockstep *l, int rc, struct err *e);
/* Adds the remedy for programs that do not make the same backward passes. Returns -ERR_DATA. */
int lockstep_passes_differ(struct err *e);
/* Some programs have left and others have not. */
struct left {
    int n, there; /* how many have left, how many are there */
    float who;    /* the sum of rank + 1 of those that have left */
    bool mine;    /* this rank's program has left */
};
/* The error for that: "the program of rank 1 has left before step 7 and 2 go on: …". ERR_PEER on
 * the rank whose program has left, with its node and last lines; on others ERR_CANCELLED, so that
 * the first one counts as the cause. */
int lockstep_say_left(const struct lockstep *l, const struct left *left, const char *when,
                      int64_t number, const char *what, struct err *e);
/* Logs that the run ends here for this rank's program, because it counts its steps anew. */
void lockstep_tell_anew(const struct lockstep *l);

/* ---- evaluation.c ---------------------------------------------------------------------------- */

/* If an evaluation is due and there is a test set: true, and *out is this rank's part of the test
 * set, by its speed. */
bool lockstep_evaluates(const struct lockstep *l, struct work *out);
/* Call it with the result of each step: if the program has measured something within an epoch, asks
 * for an evaluation, which takes it. */
void lockstep_note_measured(struct lockstep *l, const struct dev_result *r);
/* Takes the result of an evaluation, as lockstep_evaluated() does. samples 0: nothing was measured.
 */
int lockstep_take_evaluation(struct lockstep *l, double loss, double accuracy, int64_t samples,
                             struct err *e);
/* Sums the results of all ranks' parts. The first worker reports the sum, and sends its state to
 * the keeper if it is the best so far. */
int lockstep_evaluated(struct lockstep *l, const struct work *w, const struct dev_result *r,
                       struct err *e);

/* ---- advance.c ------------------------------------------------------------------------------- */

/* Without program.ahead it does nothing. ERR_MEMORY. */
int advance_init(struct lockstep *l);
void advance_release(struct lockstep *l);
/* The next step of the ring becomes the current one: *out has this rank's part, and the parts that
 * follow. */
void advance_take(struct lockstep *l, struct work *out);
/* With program.ahead: the ranks lost[n] are taken out of the current step, and of those that were
 * cut in advance. Their samples come again in steps that are cut from now on, and so do the slices
 * done[n_done] of earlier steps. lost[] is in the order of the losses, as in members.h: a rank that
 * hears of two at once cuts as one that has heard of each. ERR_PEER: the programs know already that
 * no further step comes. */
int lockstep_lose(struct lockstep *l, const int *lost, int n, const struct slice *done, int n_done,
                  struct err *e);
/* The steps that were cut and not taken, as bytes for a newcomer; the caller releases *out. */
int advance_write(const struct lockstep *l, struct own_state *out, struct err *e);
/* Reads those bytes: the first of these steps is the next one. ERR_PEER: they do not fit this job.
 */
int advance_read(struct lockstep *l, const struct own_state *from, struct err *e);
/* If a state may be taken after the current step, because all samples before it are computed by
 * then: true, and *out is where a run goes on from it. */
bool lockstep_place(const struct lockstep *l, struct cursor *out);

/* ---- agreement.c ----------------------------------------------------------------------------- */

size_t lockstep_words(const struct lockstep *l); /* the number of words */
/* The same for a job with so many workers; `weighed` as in rank_env. */
size_t lockstep_words_of(int workers, bool weighed);
/* Fills words[lockstep_words()]. time: this rank's compute time in seconds. ahead: the number of
 * steps that will be made when the words are summed. */
void lockstep_write(struct lockstep *l, float *words, double time, int64_t ahead);
/* Takes the sums of the words. Adopts the announced minibatches if every rank was ready for them,
 * and notes those that are announced now. */
void lockstep_agree(struct lockstep *l, const float *words);
/* The largest compute time in the summed words. */
float lockstep_slowest(const struct lockstep *l, const float *words);
/* The smallest of times[workers] over the members. */
float lockstep_fastest(const struct lockstep *l, const float *times);

/* ---- weights.c ------------------------------------------------------------------------------- */

/* WORD_WEIGHT and what follows, among summed words; needs program.weighed. */
const float *lockstep_weighed(const struct lockstep *l, const float *words);
/* Writes this rank's. Without program.weighed it does nothing. */
void lockstep_weigh(const struct lockstep *l, float *words, double weight, bool voided,
                    bool further);
/* The factor that makes a sum of weight / planned x gradient the mean: planned / summed weight. 0
 * if all weights are 0; 1 without program.weighed. */
double lockstep_correct(const struct lockstep *l, const float *words, double planned);

/* ---- states.c -------------------------------------------------------------------------------- */

enum state_sent {
    STATE_SENT,
    STATE_PUT_OFF /* this rank's program has ended, so it has no own state for the keeper now */
};
/* The first worker sends the keeper a state: the replica's blocks, with `optim` as the optimizer
 * state unless that is NULL. `outcome` is RUN_GOES_ON, or how the run ended. Every rank that keeps
 * an own state sends it; other ranks do nothing else. enum state_sent, or negative. */
int lockstep_send_state(struct lockstep *l, float *optim, size_t n_optim, enum save_why why,
                        enum run_outcome outcome, struct err *e);
/* Sends a checkpoint, if all have agreed on one. If a program has ended, it comes after the next
 * step. */
int lockstep_checkpoint(struct lockstep *l, float *optim, size_t n_optim, struct err *e);
/* Sends the last state, after DO_END, DO_PAUSE or DO_STOP. */
int lockstep_finish(struct lockstep *l, float *optim, size_t n_optim, struct err *e);
/* strategy_ops.serve: the keeper's part. */
int lockstep_serve(struct rank_env *env, const struct run_state *from, struct err *e);

#endif

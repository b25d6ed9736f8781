/* Strategy: how the gradients of all ranks become parameters. One file each; one line in
 * job/spec/catalog.def.
 *
 * A strategy sees flat blocks of floats, sample counts and times, never a network, a layer or a
 * data set. worker/training/trainer.c and simulator/timing.c drive it by this loop, the same on
 * every transport:
 *
 *     start ─► next ─┬─ DO_TRAIN     compute ─► on_bucket … on_gradients ─┬─► next …
 *                    ├─ DO_EVALUATE  compute ─► on_evaluated ─────────────┘
 *                    └─ DO_PAUSE, DO_STOP, DO_END ─► finish ─► free
 *
 * `next` says what to do: train on this slice, evaluate that range, pause, stop, end. The server
 * half runs on rank W (and further servers) as `serve`, which returns when the job is done. All
 * calls come from one thread.
 */
#ifndef WORKER_EXCHANGE_STRATEGY_H
#define WORKER_EXCHANGE_STRATEGY_H

#include "job/minibatch/assign.h"
#include "job/documents/coordinator/control.h"
#include "job/documents/ranks/departure.h"
#include "job/documents/ranks/evaluation.h"
#include "job/row.h"
#include "job/sample.h"
#include "job/spec/spec.h"
#include "job/staleness.h"
#include "kernels/device.h"
#include "worker/exchange/own_state.h"
#include "worker/exchange/transport/comm.h"

/* The most slices that may be handed out and not applied: those of workers, of a group, and those
 * of a checkpoint. */
enum { RUN_SLICES = SPEC_WORKERS * 4 };

enum action { DO_TRAIN, DO_EVALUATE, DO_PAUSE, DO_STOP, DO_END };

struct leftovers; /* worker/exchange/leftovers.h */

/* This rank's samples in a step that was announced in advance. They do not change after that. */
struct part {
    struct slice slice;
    int64_t whole;  /* samples of all ranks in that step; 0: not known (a server hands them out) */
    int64_t nth;    /* number of the step in its epoch, from 0; only where `whole` is known, as */
    int64_t before; /* samples of this step that lower ranks have */
    bool last;      /* this rank gets no further slice of its epoch */
    const struct leftovers *left; /* maps its positions to samples; NULL: under a server they are
                                     the positions themselves */
};

struct work {
    enum action action;
    struct slice slice; /* DO_TRAIN: with a count of 0 the rank makes no step, and takes part in the
                           exchange all the same */
    int64_t eval_first, eval_count; /* DO_EVALUATE: range of the test set */
    double learning_rate;
    /* DO_TRAIN: the weight of the slice's gradient in a mean. It is slice.count unless a user's
     * program gives another one before the first bucket. 0: the gradient is zero, and the rank
     * makes no step of its own */
    double weight;
    bool voided; /* the backward pass of a user's program failed; weight is 0 */
    /* DO_TRAIN, where program.wants_sure: of so many steps, from this one on, each is certainly
     * followed by another one, and nothing reads the replica or takes a state between them */
    int sure;
    bool further;      /* a further backward pass over the last step (strategy_ops.on_further) */
    bool absent;       /* with `further`: this rank's program has ended */
    int batch;         /* the minibatch for which the device has a plan (slice.count <= batch) */
    struct slice hint; /* the probable next slice, to be loaded meanwhile; count 0: not known */
    int next_batch;    /* a minibatch to prepare in the background; 0: none */
    /* [n_parts] this rank's part of this step and of the next ones: 1 + program.ahead, fewer at
     * the run's end. NULL where program.ahead is 0. Borrowed until the next call of `next` */
    const struct part *parts;
    int n_parts;
    bool updated; /* set by the trainer: the device updated the parameters in the same call in which
                     it computed the gradients (strategy_ops.alone) */
};

/* How a run ended, as serve(), trainer_run() and keeper_run() return it. */
enum run_outcome {
    RUN_ENDED,
    RUN_PAUSED,
    RUN_STOPPED,
    RUN_GOES_ON /* not ended; never returned */
};

enum save_why { SAVE_CHECKPOINT, SAVE_BEST, SAVE_FINAL, SAVE_PAUSE };

/* The state of a run, as a checkpoint holds it. `optim`: as DEV_OPTIM, the average over workers or
 * the server's. */
struct run_state {
    const float *params, *optim, *stats; /* borrowed */
    size_t n_params, n_optim, n_stats;
    int64_t version;         /* steps, or updates of a server */
    int64_t applied_samples; /* of all epochs */
    struct cursor cursor;
    struct slice out[RUN_SLICES]; /* [n_out] handed out and not applied */
    int n_out;
    const struct own_state *own; /* [n_own] the workers' own states by rank; borrowed */
    int n_own;                   /* 0: there are none */
    json_t *staleness; /* array of each worker's staleness_dump(); borrowed; NULL: none is kept */
    double best;       /* strategy_score() of the best artifact so far; -INFINITY: there is none */
    double elapsed;    /* seconds of the job so far; the keeper fills it */
    enum save_why why;
    double test_accuracy, test_loss; /* of SAVE_BEST / SAVE_FINAL; NaN: none */
};

/* Where the program of a newcomer begins: where the other ranks' programs stand. */
struct entrance {
    struct cursor at;         /* where the samples of the next step begin */
    int64_t made;             /* steps of the attempt so far */
    bool ends_epoch;          /* the programs stand at an epoch's end, and have not evaluated yet */
    const struct part *parts; /* [n_parts] this rank's parts of the next steps */
    int n_parts;
};

/* What a user's program needs of a strategy. All 0 for a network of ours. */
struct program_traits {
    int ahead;       /* steps whose slices are announced in advance, and then fixed; 0: none */
    bool weighed;    /* work.weight may differ from the samples, so sums carry weights */
    bool sums;       /* with `weighed`: the loss is a sum, so a sum of gradients is not divided */
    bool open;       /* at each epoch's end the programs say whether another one follows */
    bool wants_sure; /* work.sure is used: a request during sure steps waits until after them */
    size_t marks;    /* checksums by which replicas are compared (rank_env.mark); 0: they are not */
};

/* What a strategy may ask of the rank that it runs in. Its functions are called from the main
 * thread (or fiber). */
struct rank_env {
    const struct jobspec *spec;
    struct comm *comm;
    int64_t train_samples, test_samples;
    size_t n_params, n_stats;
    struct dev_replica *replica; /* NULL on keeper and servers */
    const uint8_t *decay;        /* [n_params] 1 where weight decay applies */
    /* [n_stats] a running variance has the index of its mean, a mean has -1 */
    const int32_t *mean_of;
    struct program_traits program;
    int first_sizes[SPEC_WORKERS]; /* assignment at start */
    int first_version;
    double speeds[SPEC_WORKERS]; /* relative, for sharing out the test set; 1 if unknown */
    void *ctx;
    void (*row)(void *ctx, const struct row *row);
    void (*evaluated)(void *ctx, const struct evaluation *ev);
    /* Copies the control document that was fetched last. Never blocks. */
    void (*control)(void *ctx, struct control *out);
    /* Writes the ranks of workers that the coordinator has declared lost to out[SPEC_WORKERS] and
     * returns their number. Never blocks. NULL: a loss ends the attempt. */
    int (*lost)(void *ctx, int *out);
    /* Set where `lost` is. The last steps that this rank has reported are undone and will be made
     * again: their number, without steps that had no samples, and their samples. */
    void (*undone)(void *ctx, int staleness, int64_t steps, int64_t samples);
    int n_lost; /* keeper: workers without which the run goes on */
    /* Keeper: reports that the run goes on without a worker. `left` is borrowed. */
    void (*left)(void *ctx, const struct departure *left);
    /* Writes to out[workers] how often each worker has been started again, and returns the number
     * of those for which it is more than 0; if that is 0, `out` stays as it was. NULL: no worker
     * comes back. */
    int (*seats)(void *ctx, int *out);
    /* Keeper: reports that a worker has come back. `back` is borrowed. */
    void (*returned)(void *ctx, const struct departure *back);
    bool comes_back;         /* worker: a newcomer; the others run already */
    const char *data_digest; /* keeper: struct seat's digest */
    int64_t local_step;      /* worker: steps that this rank had made before, mostly 0 */
    /* Does the device have a plan for this minibatch? If not, begins to prepare one. */
    bool (*ready)(void *ctx, int batch);
    /* aside(true) begins and aside(false) ends what belongs to an evaluation or a checkpoint and
     * not to a step. Its time is shown as such, and a virtual clock does not count it. */
    void (*aside)(void *ctx, bool on);
    /* Keeper: writes the state of a run at a consistent point. Blocks are borrowed for the call. */
    int (*save)(void *ctx, const struct run_state *state, struct err *e);
    /* Workers have own states (own_state.h), which are part of every state of the run except
     * SAVE_BEST. The same on all ranks, keeper included. */
    bool keeps_own;
    /* Worker: fetches its own state at the end of the last step. The caller releases it. Returns 0;
     * where `marks` is not 0 also OWN_STATE_AWAY. */
    int (*own_state)(void *ctx, struct own_state *out, struct err *e);

    /* The next three are set for users' programs that are started again after they ended
     * (dev_result.absent), else NULL. */

    /* Fetches the own state as it was when the gradients of this step were computed. A program that
     * stands between two steps gives its current one. OWN_STATE_AT_EPOCH_END: it stands at an
     * epoch's end and has not evaluated yet. The caller releases it. */
    int (*give)(void *ctx, struct own_state *out, struct err *e);
    /* Starts the program again from the parameters in the replica and from this state. Afterwards
     * its gradients of w are in the replica, and *w, *out and *compute_s are as after any step.
     * w->further: the step is the one before, and the next pass over it counts. state NULL: no rank
     * has a state; the call fails with how the program ended. */
    int (*resume)(void *ctx, struct work *w, const struct own_state *state, struct dev_result *out,
                  double *compute_s, struct err *e);
    /* After OWN_STATE_AWAY: the next process of the program goes on from the parameters in the
     * replica and from this state, which are another rank's. state NULL: as in `resume`. */
    int (*take)(void *ctx, const struct own_state *state, struct err *e);

    /* Where `resume` is set, on a newcomer: its program, which has started, goes on from the
     * parameters and statistics in the replica and from another rank's state. */
    int (*enter)(void *ctx, const struct entrance *at, const struct own_state *state,
                 struct err *e);
    /* For users' programs whose replicas must be equal (lockstep/steps/equal.h). `mark` writes
     * program.marks checksums of this rank's parameters; false: it cannot. `differs` fails if
     * `off`, the difference in one checksum, is more than rounding makes. */
    bool (*mark)(void *ctx, float *out);
    int (*differs)(void *ctx, size_t mark, double off, struct err *e);
    /* Adds the node and the last lines of this rank's program, which has left, to *e. May be NULL.
     *  */
    void (*parted)(void *ctx, struct err *e);
    bool measures;    /* worker: its program's evaluation counts for all; set by the strategy */
    double job_start; /* comm_now() at the job's time 0 */
    void (*served)(void *ctx, int64_t version,
                   double busy_fraction); /* servers: after an update; may be NULL */
    /* Array of ranks: a server first takes gradients in this order, and then as they arrive. NULL:
     * as they arrive. */
    const json_t *order;
};

struct strategy;  /* the head of every strategy's own struct: below */
struct footprint; /* worker/exchange/footprint.h */

/* Who makes the optimizer's step where a user's program computes gradients (worker/program/). */
enum step_maker {
    /* The strategy does, from gradients where the program's optimizer is plain SGD, else from the
     * difference that a step of that optimizer makes. */
    STEP_BY_STRATEGY,
    STEP_BY_PROGRAM,       /* its optimizer, on the gradients of its own rank */
    STEP_BY_PROGRAM_ON_SUM /* its optimizer, on the sum over all ranks: all make the same step */
};

/* What STEP_BY_STRATEGY does about the momentum of the program's optimizer. */
enum step_momentum {
    MOMENTUM_TAKEN, /* its step has the same */
    MOMENTUM_NONE,  /* its step has none, so a program with momentum gives differences */
    MOMENTUM_OWN    /* its step has one of its own, so a program with momentum is refused */
};

/* How a user's program takes part. All zero is right for a plain parameter server. */
struct program_part {
    enum step_maker step;
    enum step_momentum momentum;
    bool gradients_only; /* it cannot use a difference: a program that gives one is refused */
};

struct strategy_ops {
    int id;                             /* CAT_STRATEGY_… */
    bool server;                        /* rank W runs serve() as a parameter server */
    const struct program_part *program; /* never NULL */
    /* Does an update use only this rank's gradients? Then the device may make it. NULL: never. */
    bool (*alone)(const struct comm *c);
    /* Starts on every rank from `state`: initial parameters (version 0) or a checkpoint. Workers
     * have received it before. */
    struct strategy *(*start)(struct rank_env *env, const struct run_state *state, struct err *e);
    int (*next)(struct strategy *s, struct work *out, struct err *e);
    /* Called while the device computes: bucket b of the gradients is ready on it. A failure to hand
     * it over is reported in `failed`. */
    void (*on_bucket)(struct strategy *s, const struct work *w, const struct dev_bucket *b,
                      int index, int n_buckets);
    /* All gradients of the slice are ready. r: the result; compute_s: seconds without waits. */
    int (*on_gradients)(struct strategy *s, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e);
    /* Called after on_bucket for all buckets of a further backward pass over the last step. It
     * exchanges gradients as a step does, but makes no step, counts no samples and reports no row.
     * It may be called within `next`, when parameters are fetched. NULL: a step has one pass. */
    int (*on_further)(struct strategy *s, const struct work *w, struct err *e);
    /* Asks all ranks between two sums: 1 if `mine` is true on any of them, else 0. All ranks call
     * it. May be NULL. */
    int (*any)(struct strategy *s, bool mine, struct err *e);
    int (*on_evaluated)(struct strategy *s, const struct work *w, const struct dev_result *r,
                        struct err *e);
    int (*finish)(struct strategy *s, struct err *e); /* after DO_END, DO_PAUSE or DO_STOP */
    void (*free)(struct strategy *s);
    /* Runs on rank W and up until the job ends. In a strategy without a server it is the keeper's
     * part, which receives states from rank 0 and saves them. enum run_outcome, or negative. */
    int (*serve)(struct rank_env *env, const struct run_state *state, struct err *e);
    /* Counts the memory that the strategy needs, and the floats of its all-reduces, from the spec
     * alone. */
    void (*footprint)(struct footprint *f);
};

struct strategy {
    const struct strategy_ops *ops;
    /* If its code is set, a bucket could not be handed over; the trainer ends with this error. */
    struct err failed;
    /* Set by on_gradients: the sum was a further pass over the step before, in which this rank's
     * program was absent (dev_result.absent). The program runs again; the trainer computes the
     * slice and calls on_gradients once more. */
    bool once_more;
};

const struct strategy_ops *strategy_find(int id); /* NULL if this build has none */
/* W of the formulas: the workers that take part. Ranks are counted by env->comm->workers. */
int strategy_workers(const struct rank_env *env);
/* A row's or an evaluation's accuracy; NAN if `correct` is negative: the loss mse has none, and a
 * user's program need not tell it. */
double strategy_accuracy(double correct, double samples);
/* Rates an evaluation; the best one has the greatest score. It follows the accuracy, or the loss
 * where there is no accuracy. -INFINITY: neither is a number. */
double strategy_score(double accuracy, double loss);

#endif

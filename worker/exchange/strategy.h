/* Strategy: how the gradients of all ranks become parameters. One file each; one line in
 * job/spec/catalog.def.
 *
 * A strategy sees flat blocks of floats, sample counts and times, never a network, a layer or a
 * data set. worker/trainer.c and simulator/timing.c drive it by this loop, the same on every
 * transport:
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

enum {
    /* most at a time: of workers, of a group, and left from before a restart */
    RUN_SLICES = SPEC_WORKERS * 4
};

enum action { DO_TRAIN, DO_EVALUATE, DO_PAUSE, DO_STOP, DO_END };

struct leftovers; /* worker/exchange/leftovers.h */

/* This rank's samples in a step, which are fixed. */
struct part {
    struct slice slice;
    int64_t whole; /* samples of all ranks in that step; 0: not known (a server hands them out) */
    bool last;     /* no other slice of its epoch comes to this rank */
    const struct leftovers *left; /* its positions go through these; NULL: a server's do not */
};

struct work {
    enum action action;
    struct slice slice;             /* DO_TRAIN: count may be 0 (make no step, still take part) */
    int64_t eval_first, eval_count; /* DO_EVALUATE: range of the test set */
    double learning_rate;
    /* DO_TRAIN: what the slice's gradient counts in a mean: slice.count, unless a user's program
     * says otherwise before the first bucket. 0: its gradient is zero, and the rank makes no step
     * of its own */
    double weight;
    bool voided; /* a user's program could not end its backward pass; weight is 0 */
    /* DO_TRAIN, where rank_env.wants_sure: another step follows this one for certain, and nobody
     * asks for the replica or for states in between */
    bool sure;
    bool further;      /* one more backward pass over the last step (strategy_ops.on_further) */
    int batch;         /* the minibatch to have a program for (slice.count <= batch) */
    struct slice hint; /* the probable next slice (count 0: unknown), so that loading overlaps */
    int next_batch;    /* a size to prepare in the background, 0: none */
    /* [n_parts] this step's and those after it, at most 1 + rank_env.ahead, fewer only at the run's
     * end; NULL if that is 0. Borrowed until the next `next` */
    const struct part *parts;
    int n_parts;
    bool updated; /* the trainer's: the device has made the update, in one with computing
                          (strategy_ops.alone) */
};

/* How a run ended, as serve(), trainer_run() and keeper_run() return it. */
enum run_outcome {
    RUN_ENDED,
    RUN_PAUSED,
    RUN_STOPPED,
    RUN_GOES_ON /* it did not end yet; never returned */
};

enum save_why { SAVE_CHECKPOINT, SAVE_BEST, SAVE_FINAL, SAVE_PAUSE };

/* Everything a checkpoint holds besides the tensors. `optim`: as DEV_OPTIM, averaged or of the
 * server. */
struct run_state {
    const float *params, *optim, *stats; /* borrowed */
    size_t n_params, n_optim, n_stats;
    int64_t version;         /* step */
    int64_t applied_samples; /* in all */
    struct cursor cursor;
    struct slice out[RUN_SLICES]; /* handed out, not applied */
    int n_out;
    const struct own_state *own; /* [n_own] of the workers by rank; borrowed; n_own 0: none */
    int n_own;
    json_t *staleness; /* array of each worker's staleness_dump(); borrowed; NULL: none is kept */
    double best;       /* accuracy of the best artifact so far; 0: there is none */
    double elapsed;    /* seconds of the job so far; the keeper fills it */
    enum save_why why;
    double test_accuracy, test_loss; /* of SAVE_BEST / SAVE_FINAL; < 0: none */
};

/* What the strategy may ask of the rank it runs in: all function pointers may be called from the
 * main thread (or fiber). */
struct rank_env {
    const struct jobspec *spec;
    struct comm *comm;
    int64_t train_samples, test_samples;
    size_t n_params, n_stats;
    struct dev_replica *replica; /* NULL on keeper and servers */
    const uint8_t *decay;        /* [n_params] 1 where weight decay applies */
    /* [n_stats] of a running variance the index of its mean, of a mean -1 */
    const int32_t *mean_of;
    int first_sizes[SPEC_WORKERS]; /* assignment at start */
    int first_version;
    double speeds[SPEC_WORKERS]; /* relative, for sharing out the test set; 1 if unknown */
    void *ctx;
    void (*row)(void *ctx, const struct row *row);
    void (*evaluated)(void *ctx, const struct evaluation *ev);
    void (*control)(void *ctx, struct control *out); /* last known; never blocks */
    /* Ranks of workers that the coordinator has declared lost, into out[SPEC_WORKERS]; how many.
     * Never blocks. NULL: a loss ends the attempt. */
    int (*lost)(void *ctx, int *out);
    /* Where `lost` is: so many of the steps whose rows this rank has told, with so many samples,
     * are undone, and made again. */
    void (*undone)(void *ctx, int staleness, int64_t steps, int64_t samples);
    int n_lost; /* workers that the run goes on without; the keeper's */
    /* Keeper: the run goes on without this worker from now on. `left` is borrowed. */
    void (*left)(void *ctx, const struct departure *left);
    /* Keeper: how often workers that died are to be started again, so far, into out[workers]; how
     * many of them were at all, 0: `out` is as it was. NULL: nobody comes back. `returned`: this
     * one is there again. `back` is borrowed. */
    int (*seats)(void *ctx, int *out);
    void (*returned)(void *ctx, const struct departure *back);
    const char *data_digest; /* keeper: of the values of all workers' data set; "": not known */
    int64_t local_step;      /* worker: steps that this rank has made before; mostly 0 */
    bool (*ready)(void *ctx,
                  int batch); /* is a program for this size there? starts preparing it if not */
    /* The calls that follow (until false) belong to an evaluation or a checkpoint and to no step:
     * shown as such, and free on a virtual clock. */
    void (*aside)(void *ctx, bool on);
    /* Keeper: the state of a run at a consistent point, to be written. Blocks are borrowed for the
     * call. */
    int (*save)(void *ctx, const struct run_state *state, struct err *e);
    /* Workers have states of their own (own_state.h), which belong to every state of the run but
     * SAVE_BEST; alike on all ranks, keeper included. */
    bool keeps_own;
    /* Worker: this rank's, at the end of the step that was made last; the caller releases it. */
    int (*own_state)(void *ctx, struct own_state *out, struct err *e);
    /* Where a user's program may have ended and be started again (dev_result.absent); else NULL.
     * give: this rank's own state as it was when the gradients of this step were computed; the
     * caller releases it. resume: starts the program again, from the parameters in the replica and
     * that state; its gradients of w are in the replica then, *w, *out and *compute_s as after any
     * step. state NULL: no rank has one; the error says how the program ended. */
    int (*give)(void *ctx, struct own_state *out, struct err *e);
    int (*resume)(void *ctx, struct work *w, const struct own_state *state, struct dev_result *out,
                  double *compute_s, struct err *e);
    /* Replicas of a user's program that must be equal (lockstep/equal.h): `marks` floats of this
     * rank's parameters, false if they are not known; and an error if being `off` by so much in one
     * of them is more than rounding. marks 0: nothing is compared. */
    size_t marks;
    bool (*mark)(void *ctx, float *out);
    int (*differs)(void *ctx, size_t mark, double off, struct err *e);
    /* NULL, or: *e says that this rank's program has left, and gets its node and last lines. */
    void (*parted)(void *ctx, struct err *e);
    int ahead;        /* steps whose slices are announced in advance and then fixed; 0: none */
    bool weighed;     /* work.weight may differ from the samples, so sums carry weights with them */
    bool wants_sure;  /* work.sure is of use: what is asked in a sure step waits for the next */
    bool sums;        /* with `weighed`: the loss is a sum, so a sum of gradients is not divided */
    bool open;        /* programs say at each epoch's end whether another one follows */
    bool measures;    /* worker: what its program measured counts for all (the strategy sets it) */
    double job_start; /* comm_now() at the job's time 0 */
    void (*served)(void *ctx, int64_t version,
                   double busy_fraction); /* servers: after an update; may be NULL */
    const json_t *order; /* array of ranks: whose gradients a server takes one after the other, then
                            as they come; or NULL */
};

struct strategy;  /* what every one begins with: below */
struct footprint; /* worker/exchange/footprint.h */

/* Who makes the step where a user's own program computes the gradients (worker/program/). */
enum step_maker {
    /* The strategy: from gradients, if the program's optimizer is plain SGD; else from the
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
    bool gradients_only; /* a difference is no use to it: a program that gives one is refused */
};

struct strategy_ops {
    int id;                             /* CAT_STRATEGY_… */
    bool server;                        /* rank W runs serve() as a parameter server */
    const struct program_part *program; /* never NULL */
    /* Does an update use this rank's gradients alone, as they are on the device? NULL: never. */
    bool (*alone)(const struct comm *c);
    /* `state` is where to start: initial parameters (version 0) or a checkpoint; on every rank
     * (workers have received it). */
    struct strategy *(*start)(struct rank_env *env, const struct run_state *state, struct err *e);
    int (*next)(struct strategy *s, struct work *out, struct err *e);
    /* From dev_ops.compute's mark: bucket b of the gradients is ready on the device. A failure to
     * hand it over is reported in `failed`. */
    void (*on_bucket)(struct strategy *s, const struct work *w, const struct dev_bucket *b,
                      int index, int n_buckets);
    /* All gradients of the slice are there; result and compute seconds (waits excluded). */
    int (*on_gradients)(struct strategy *s, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e);
    /* After on_bucket for all buckets of one more backward pass over the last step: the same
     * exchange, but no step, no samples and no row. It may come within `next`, when parameters are
     * fetched. NULL: gradients of a step are used once. */
    int (*on_further)(struct strategy *s, const struct work *w, struct err *e);
    int (*on_evaluated)(struct strategy *s, const struct work *w, const struct dev_result *r,
                        struct err *e);
    int (*finish)(struct strategy *s, struct err *e); /* after DO_END, DO_PAUSE or DO_STOP */
    void (*free)(struct strategy *s);
    /* Rank W and up: until the job ends. Strategies without a server have a keeper's half here: it
     * takes states from rank 0 and saves them. Returns enum run_outcome, or negative. */
    int (*serve)(struct rank_env *env, const struct run_state *state, struct err *e);
    /* What it keeps in memory and what its all-reduces carry, from the spec alone. */
    void (*footprint)(struct footprint *f);
};

struct strategy {
    const struct strategy_ops *ops;
    /* code: a bucket could not be handed over; the trainer ends the job with this */
    struct err failed;
};

const struct strategy_ops *strategy_find(int id); /* NULL if this build has none */
/* W of the formulas: the workers that take part. Ranks are counted by env->comm->workers. */
int strategy_workers(const struct rank_env *env);
/* A row's accuracy; NAN if `correct` is negative: a user's program does not report it. */
float strategy_accuracy(double correct, double samples);

#endif

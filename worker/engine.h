/* An engine computes a rank's gradients. There are two: our own networks
 * (worker/model/model_engine.c with loader, network and device), and a user's own program
 * (worker/program/engine.c, where a child process computes). The trainer drives both by the same
 * loop:
 *
 *     open ─► prepare ─► ┌ load ─► compute, marks each bucket ─┐ … evaluate … ─► end ─► free
 *                        └──────────────◄──────────────────────┘
 *
 * All calls come from the main thread (or fiber). Negative results say why in `e`.
 */
#ifndef WORKER_ENGINE_H
#define WORKER_ENGINE_H

#include "worker/training/trainer.h"

struct engine_ops;

/* A metric that a user's program has logged: the newest value of this name. */
struct logged_value {
    char name[LOGGED_NAME];
    double value; /* may be NaN or infinite */
};

enum further_pass {
    PASS_MADE,
    PASS_FAILED, /* it weighs nothing, and no rank makes the step */
    PASS_ABSENT  /* the program has ended; its next process makes the pass (rank_env.resume) */
};

struct engine {
    const struct engine_ops *ops;
    struct trainer_env *env;          /* borrowed */
    struct dev_replica *replica;      /* the strategy's replica; set by `prepare` */
    const struct dev_bucket *buckets; /* [n_buckets] of the loaded step */
    int n_buckets;
    int64_t test_samples; /* samples of the test set; 0: the strategy asks for no evaluation */
    struct program_traits program; /* set when the engine is opened, as in rank_env */
    /* set by the trainer when the strategy has started: */
    double job_start; /* comm_now() at the job's time 0 */
    /* Called by the engine in a further backward pass over the last step, when that pass's
     * gradients, of this weight, are in the replica. Blocks until the gradients of all ranks are
     * summed. */
    int (*further)(void *ctx, double weight, enum further_pass how, struct err *e);
    /* 1 if `mine` is true on any rank, else 0. Blocks until all ranks call it. NULL: the strategy
     * has no such question. */
    int (*any)(void *ctx, bool mine, struct err *e);
    /* A user's program has logged metrics: engine_ops.logged has some. */
    void (*heard)(void *ctx);
    void *further_ctx; /* for all three */
    /* set by `compute`: */
    double idle;    /* seconds without computing; negative: it had begun before */
    double loading; /* of the other seconds, those in which a user's program waited for samples */
};

struct engine_ops {
    /* Copies `from` to the replica, and calibrates the node. The blocks of `from` are borrowed for
     * the call. */
    int (*prepare)(struct engine *g, const struct run_state *from, struct err *e);
    /* As rank_env.ready. */
    bool (*ready)(struct engine *g, int batch);
    /* Fetches the step's data, and sets `buckets`. It does not count as computing time. */
    int (*load)(struct engine *g, const struct work *w, struct err *e);
    /* Computes the gradients of w->slice into the replica, as a mean over its samples; zero for an
     * empty slice. Calls mark for each bucket, in order. Sets w->updated if it has made the update
     * too, and w->learning_rate if the rate is not the spec's. If `weighed`, it sets w->weight
     * before the first mark, and w->voided. */
    int (*compute)(struct engine *g, struct work *w, struct dev_result *out, dev_mark_fn *mark,
                   void *ctx, struct err *e);
    /* Sums loss and correct predictions over the range of the test set. May set w->eval_count to
     * the number of samples that it really had. With `open` it also sets sum->leaves, or
     * sum->absent if that is unknown. */
    int (*evaluate)(struct engine *g, struct work *w, struct dev_result *sum, struct err *e);
    /* One evaluation that a user's program has made by itself, in a run whose strategy asks for
     * none; *n: its samples, 0: there is no further one. last: no step follows, so the call waits
     * for what the program does after the last one. May be NULL. */
    int (*measured)(struct engine *g, bool last, struct dev_result *sum, int64_t *n, struct err *e);
    /* The metrics that a user's program has logged since the last call, each with its newest value;
     * borrowed until the next call of the engine. Returns how many. May be NULL. */
    int (*logged)(struct engine *g, const struct logged_value **out);
    /* As rank_env.own_state, after the last step. NULL: there is none. */
    int (*own_state)(struct engine *g, struct own_state *out, struct err *e);
    /* As in rank_env. NULL: only the strategy changes the replica. */
    bool (*mark)(struct engine *g, float *out);
    int (*differs)(struct engine *g, size_t mark, double off, struct err *e);
    void (*parted)(struct engine *g, struct err *e);
    /* As in rank_env. NULL: the engine never ends by itself. */
    int (*give)(struct engine *g, struct own_state *out, struct err *e);
    int (*resume)(struct engine *g, struct work *w, const struct own_state *state,
                  struct dev_result *out, double *compute_s, struct err *e);
    int (*take)(struct engine *g, const struct own_state *state, struct err *e);
    int (*enter)(struct engine *g, const struct entrance *at, const struct own_state *state,
                 struct err *e);
    /* Ends this action of the strategy. May be NULL. */
    int (*end)(struct engine *g, enum action why, struct err *e);
    void (*free)(struct engine *g);
};

/* Our own networks. NULL: memory ran out. */
struct engine *engine_of_network(struct trainer_env *env, struct err *e);

#endif

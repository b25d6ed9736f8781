/* Engine: what computes a rank's gradients. The trainer has one loop over a strategy; behind this
 * interface are our own networks (worker/model/model_engine.c: loader, network, device) and a
 * user's own program (worker/program/engine.c: a child process that computes).
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

enum further_pass {
    PASS_MADE,
    PASS_FAILED, /* it weighs nothing, and no rank makes the step */
    PASS_ABSENT  /* the program has ended; another process makes it (rank_env.resume) */
};

struct engine {
    const struct engine_ops *ops;
    struct trainer_env *env;          /* borrowed */
    struct dev_replica *replica;      /* what the strategy works on; there once prepared */
    const struct dev_bucket *buckets; /* [n_buckets] of the step that is loaded */
    int n_buckets;
    int64_t test_samples; /* that the strategy shares out for an evaluation; 0: it asks for none */
    int ahead;            /* steps of which slices are fixed before their turn; 0: none */
    double job_start;     /* comm_now() at the job's time 0; there once the strategy has begun */
    bool weighed, sums;   /* as rank_env's; there once opened, as the next three */
    bool open, wants_sure;
    size_t marks;
    /* The trainer's, once the strategy has begun: one more backward pass over the last step has its
     * gradients in the replica, weighed `weight`. Blocks until all ranks' are summed. */
    int (*further)(void *ctx, double weight, enum further_pass how, struct err *e);
    /* The trainer's too: 1 if `mine` is true on any rank, else 0. Blocks until all ranks ask; NULL:
     * the strategy cannot. */
    int (*any)(void *ctx, bool mine, struct err *e);
    void *further_ctx; /* of both */
    double idle;       /* seconds of the last `compute` that were not computing */
    double loading;    /* and of the rest those in which a user's program waited for its samples */
};

struct engine_ops {
    /* Puts the start into the replica and measures the node. Blocks of `from` are borrowed for the
     * call. */
    int (*prepare)(struct engine *g, const struct run_state *from, struct err *e);
    /* As rank_env.ready. */
    bool (*ready)(struct engine *g, int batch);
    /* Fetches what the step needs and makes `buckets` hold; no part of its computing time. */
    int (*load)(struct engine *g, const struct work *w, struct err *e);
    /* Gradients of w->slice, a mean over its samples, into the replica; of an empty slice they are
     * zero. Calls mark for each bucket in order. Sets w->updated if the update is made too,
     * w->learning_rate if the rate is not the spec's, and, if `weighed`, w->weight before the first
     * mark, and w->voided. */
    int (*compute)(struct engine *g, struct work *w, struct dev_result *out, dev_mark_fn *mark,
                   void *ctx, struct err *e);
    /* Sums of loss and correct over the range of the test set; may change w->eval_count to what it
     * really had. `open`: sum->leaves, or sum->absent where that is not known. */
    int (*evaluate)(struct engine *g, struct work *w, struct dev_result *sum, struct err *e);
    /* NULL, or: what was measured by itself since the last call, in a run whose strategy asks for
     * no evaluation; *n: samples, 0 if nothing was. `last`: no step follows, and what belongs
     * behind the last one is waited for. */
    int (*measured)(struct engine *g, bool last, struct dev_result *sum, int64_t *n, struct err *e);
    /* NULL, or: what this rank keeps beside the replica, once the last step is made; as
     * rank_env.own_state. */
    int (*own_state)(struct engine *g, struct own_state *out, struct err *e);
    /* As rank_env's; NULL: nothing but the strategy changes the replica. */
    bool (*mark)(struct engine *g, float *out);
    int (*differs)(struct engine *g, size_t mark, double off, struct err *e);
    void (*parted)(struct engine *g, struct err *e);
    /* As rank_env's; NULL: what computes does not end by itself. */
    int (*give)(struct engine *g, struct own_state *out, struct err *e);
    int (*resume)(struct engine *g, struct work *w, const struct own_state *state,
                  struct dev_result *out, double *compute_s, struct err *e);
    int (*take)(struct engine *g, const struct own_state *state, struct err *e);
    int (*enter)(struct engine *g, const struct entrance *at, const struct own_state *state,
                 struct err *e);
    /* NULL, or: the strategy has finished with this action. */
    int (*end)(struct engine *g, enum action why, struct err *e);
    void (*free)(struct engine *g);
};

/* Our own networks. NULL: memory ran out. */
struct engine *engine_of_network(struct trainer_env *env, struct err *e);

#endif

/* The ways in which the gradients of a step are summed and used, behind gradients.h. Inside
 * worker/exchange/gradients only.
 *
 *   alone       one worker: nothing is summed
 *   host        sums in host memory, used when all have ended
 *   by_part     as host, but parts of the parameters are updated while other sums are under way
 *   lent        one sum, which the update reads in the transport's memory
 *   kept        sums in memory of their own, where a gradient cannot be computed twice
 *   on_device   sums in the device's memory
 *
 * The last bucket has a trailer behind it: running statistics, then the caller's words. */
#ifndef WORKER_EXCHANGE_GRADIENTS_WAYS_H
#define WORKER_EXCHANGE_GRADIENTS_WAYS_H

#include "worker/exchange/gradients/device_buffer.h"
#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/transport/allreduce.h"

struct bucket {
    struct allreduce sum; /* sum.comm NULL: no bucket of this index yet */
    size_t first, floats; /* where it is in the flat block */
};

/* A sum in memory of its own (kept.c). */
struct kept_sum {
    float *rest; /* [n_params] whose first floats, the last bucket's, are not used; owned */
    float *last; /* [last bucket + trailer]; owned */
};

struct gradients {
    const struct gradients_way *way;
    struct rank_env *env;
    struct bucket *buckets; /* [n_buckets]; owned */
    int n_buckets;
    size_t words, trailer; /* floats; the trailer's: statistics and words */
    float *last;           /* [last bucket + trailer] on the host; owned; NULL: on the device. In
                              `kept`: part of one of its sums */
    float *written;        /* [trailer] where the host writes it: after the last bucket, or in
                              pinned memory */
    const float *sums;     /* [trailer] the sums: in `written`, or in memory of the transport */
    struct device_buffer buffer; /* [trailer + n_params], for on_device */
    gradients_judge_fn *judge;   /* NULL: every update is made, with scale 1 */
    void *judge_ctx;
    gradients_late_fn *late; /* NULL: no rank comes late */
    void *late_ctx;
    struct allreduce join;
    float *joining; /* [n_params + trailer] for the gradients of late ranks; owned; NULL: none was
                       late yet */
    struct kept_sum kept[2]; /* for `kept`: the sum under way, and the one that ended last */
    int turn;                /* index of the sum that is under way or comes next */
    float last_share;        /* for `kept`: the share by which the last bucket is weighed */
    struct undo *undo;       /* see undo.c; owned; NULL: steps are not undone */
};

struct gradients_way {
    const char *name;
    bool keeps_sums; /* so a step can be summed again, and a rank can join late */
    /* Allocates room for a bucket's sum, in the first step. */
    int (*lay_out)(struct gradients *g, struct bucket *b, struct err *e);
    /* Fetches a bucket's gradients, weighs them, and starts their sum, except for the last bucket.
     */
    int (*add)(struct gradients *g, struct bucket *b, float share, struct err *e);
    /* Starts the last sum with the trailer, waits for all sums, updates, and sets `sums`. */
    int (*update)(struct gradients *g, double learning_rate, struct err *e);
};

extern const struct gradients_way gradients_host, gradients_by_part, gradients_lent, gradients_kept,
    gradients_on_device;

static inline struct bucket *gradients_last(const struct gradients *g)
{
    return &g->buckets[g->n_buckets - 1];
}

/* ---- apply.c --------------------------------------------------------------------------------- */
/* Makes one update with all sums, which are complete, as is `sums`. For the ways that make only
 * one. */
int gradients_apply(struct gradients *g, double learning_rate, struct err *e);
/* The same for one worker, whose only gradient is the mean, whatever its weight. */
int gradients_apply_alone(struct gradients *g, const struct work *w, struct err *e);
/* Call it before the last sum: writes this rank's running statistics, times `share`, to the
 * trailer. */
int gradients_weigh_statistics(struct gradients *g, double share, struct err *e);
/* Call it after an update: merges the summed statistics into the replica. */
int gradients_settle_statistics(struct gradients *g, struct err *e);

/* ---- kept.c ---------------------------------------------------------------------------------- */
void gradients_kept_free(struct gradients *g);

/* ---- late.c ---------------------------------------------------------------------------------- */
void gradients_late_free(struct gradients *g);

/* ---- undo.c: nothing where steps are not undone ---------------------------------------------- */
void gradients_undo_free(struct gradients *g);
/* For a way that updates floats [first, first + n) before it has all sums: _begin_parts, then
 * _keep_part before each part changes, then _end_parts once the step is made. */
void gradients_begin_parts(struct gradients *g);
void gradients_keep_part(struct gradients *g, size_t first, size_t n);
void gradients_end_parts(struct gradients *g);

/* ---- host.c, for the ways that sum in host memory -------------------------------------------- */
int gradients_host_lay_out(struct gradients *g, struct bucket *b, struct err *e);
int gradients_host_add(struct gradients *g, struct bucket *b, float share, struct err *e);
/* Starts the last bucket's sum, with the trailer. */
void gradients_host_send_last(struct gradients *g);
/* Waits for all sums. */
int gradients_wait(struct gradients *g, struct err *e);
/* Copies the last bucket's sums to those of the others, and the trailer's to `sums`. */
void gradients_host_take_last(struct gradients *g);

#endif

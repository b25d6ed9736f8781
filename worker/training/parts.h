/* A training rank's state, shared by trainer.c, begin.c and hooks.c. */
#ifndef WORKER_TRAINING_PARTS_H
#define WORKER_TRAINING_PARTS_H

#include "worker/engine.h"
#include "worker/training/layer_norms.h"
#include "worker/training/start.h"
#include "worker/training/trainer.h"

struct trainer {
    struct trainer_env *env;
    struct rank_env rank;
    struct start *start; /* NULL once the strategy has begun, which has copied its blocks */
    struct engine *engine;
    struct strategy *strategy;
    struct layer_norms *norms; /* NULL: this run does not measure them */
    struct logged_point at;    /* step, epoch and time of the last row */
    bool stepped;              /* there was one */
    uint8_t *decay;
    int32_t *mean_of;
    int64_t local_step;
    bool left; /* a user's program has left; the strategy may have steps */
    /* of the step under way */
    const struct work *work;
    double handing;        /* seconds spent in on_bucket, including measuring */
    double load_seconds;   /* until the engine had its data */
    struct err unmeasured; /* why a bucket's gradients could not be read */
};

static inline void trainer_phase(struct trainer *t, enum phase p)
{
    t->env->telemetry->phase(t->env->telemetry->ctx, p);
}

/* Is this the lowest remaining rank? */
bool trainer_is_first(struct trainer *t);

/* Reports what a user's program has logged since the last call: it belongs to the step of the last
 * row. Before the first row it waits. */
void trainer_tell_logged(struct trainer *t);

/* begin.c: sets up engine and strategy of this rank, up to its first step, and frees t->start. */
int trainer_begin(struct trainer *t, struct err *e);
void trainer_free_start(struct trainer *t);

/* hooks.c: gives t->rank and the engine their callbacks into the trainer; after
 * start_rank_env(). */
void hooks_fill(struct trainer *t, const struct strategy_ops *ops);
/* Fails if a bucket that the device did not hand out would be missing or outdated in a sum. */
int hooks_check_handed(const struct trainer *t, struct err *e);

#endif

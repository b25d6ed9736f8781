/* Strategies that average parameters (averaging.c). They differ by their policy: after which steps
 * which workers average. Inside worker/exchange only. */
#ifndef WORKER_EXCHANGE_AVERAGING_H
#define WORKER_EXCHANGE_AVERAGING_H

#include "worker/exchange/lockstep/steps/lockstep.h"

enum average { AVERAGE_NONE, AVERAGE_GROUP, AVERAGE_ALL };

struct averaging_policy {
    /* With which average step `step` ends; steps count from 1. `epoch`: the training done by then.
     * All ranks must get the same answer. The job's last step always ends with AVERAGE_ALL. */
    enum average (*after)(const struct jobspec *spec, int64_t step, double epoch);
    bool groups; /* AVERAGE_GROUP is among the answers */
};

struct strategy *averaging_start(const struct strategy_ops *ops,
                                 const struct averaging_policy *policy, struct rank_env *env,
                                 const struct run_state *state, struct err *e);
extern const struct program_part averaging_program;
bool averaging_is_alone(const struct comm *c);
int averaging_next(struct strategy *s, struct work *out, struct err *e);
void averaging_bucket(struct strategy *s, const struct work *w, const struct dev_bucket *b,
                      int index, int n_buckets);
int averaging_gradients(struct strategy *s, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e);
int averaging_further(struct strategy *s, const struct work *w, struct err *e);
int averaging_evaluated(struct strategy *s, const struct work *w, const struct dev_result *r,
                        struct err *e);
int averaging_finish(struct strategy *s, struct err *e);
void averaging_free(struct strategy *s);
void averaging_footprint(const struct averaging_policy *policy, struct footprint *f);

/* Defines the strategy of the catalogue's line IDENT from its policy, the file's `policy`. */
#define AVERAGING_STRATEGY(ident)                                                      \
    static struct strategy *start(struct rank_env *env, const struct run_state *state, \
                                  struct err *e)                                       \
    {                                                                                  \
        return averaging_start(&strategy_##ident, &policy, env, state, e);             \
    }                                                                                  \
    static void footprint(struct footprint *f)                                         \
    {                                                                                  \
        averaging_footprint(&policy, f);                                               \
    }                                                                                  \
    const struct strategy_ops strategy_##ident = {.id = CAT_STRATEGY_##ident,          \
                                                  .program = &averaging_program,       \
                                                  .alone = averaging_is_alone,         \
                                                  .start = start,                      \
                                                  .next = averaging_next,              \
                                                  .on_bucket = averaging_bucket,       \
                                                  .on_gradients = averaging_gradients, \
                                                  .on_further = averaging_further,     \
                                                  .on_evaluated = averaging_evaluated, \
                                                  .finish = averaging_finish,          \
                                                  .free = averaging_free,              \
                                                  .serve = lockstep_serve,             \
                                                  .footprint = footprint}

#endif

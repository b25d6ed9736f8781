/* The weights of gradients where they are not the numbers of samples: a user's program may count
 * tokens, and a batch may have other samples than its slice.
 *
 *      planned    n = samples of the step, which every rank knows before it begins
 *      a bucket   w_i / n * g_i           leaves during the pass: others' w are not known yet
 *      words      w_i                     with the last bucket
 *      update     n / sum(w) * sum(w_i / n * g_i)  =  sum(w_i * g_i) / sum(w_i)
 *
 * By samples the w sum up to n, and the factor is 1.
 */
#ifndef WORKER_EXCHANGE_LOCKSTEP_STEPS_WEIGHTS_H
#define WORKER_EXCHANGE_LOCKSTEP_STEPS_WEIGHTS_H

#include "worker/exchange/lockstep/steps/lockstep.h"

/* What a gradient is multiplied with before it is summed. */
double lockstep_factor(const struct lockstep *l, const struct work *w);

/* Were these words summed with one more backward pass of some ranks? */
bool lockstep_is_further(const struct lockstep *l, const float *words);

struct weighing {             /* of one sum of gradients */
    const struct lockstep *l; /* borrowed; NULL: ranks weigh by samples (rank_env.weighed is false),
                                 and nothing below does anything */
    int64_t step;             /* before which programs may have left */
    bool left;                /* this rank's program has left in place of it */
    bool equal, anew;         /* all ranks make each step together; dev_result.anew here */
};

/* Writes this rank's words of the sum over w. */
void weighing_begin(struct weighing *g, const struct work *w, float *words);
/* Whether this rank's program has left in place of the step. */
void weighing_leave(struct weighing *g, const struct dev_result *r, float *words);
enum weighing_outcome { WEIGHING_GOES_ON, WEIGHING_ALL_LEFT /* there is no step */ };
/* enum weighing_outcome; an error, as lockstep_say_left's, if some programs have left and others
 * not. With `equal` those that were started again have all left where the others have. */
int weighing_left(const struct weighing *g, const float *sums, struct err *e);
/* For gradients_set_judge: ctx is a struct weighing with l. */
bool weighing_judge(void *ctx, const float *sums, double *scale);
/* Programs that do not make the same backward passes sum what does not belong together: ERR_DATA.
 */
int weighing_check(const struct weighing *g, const struct work *w, const float *sums,
                   struct err *e);
/* The sum ended with rc. If another rank summed something else meanwhile: what that says of this
 * rank's program. Else rc. */
int weighing_failed(const struct weighing *g, const struct work *w, int rc, struct err *e);

#endif

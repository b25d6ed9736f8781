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

/* The factor of this rank's gradient in the sum. */
double lockstep_factor(const struct lockstep *l, const struct work *w);

/* Was this sum a further backward pass on some ranks? */
bool lockstep_is_further(const struct lockstep *l, const float *words);

struct weighing {             /* one sum of gradients */
    const struct lockstep *l; /* borrowed; NULL: ranks weigh by samples (program.weighed is false),
                                 and the functions below do nothing */
    int64_t step;             /* the step of the sum */
    bool left;                /* this rank's program has left in place of it */
    bool equal;               /* all ranks make each step together */
    bool anew;                /* dev_result.anew of this rank */
};

/* Writes this rank's words of the sum over w. */
void weighing_begin(struct weighing *g, const struct work *w, float *words);
/* Notes, and writes to the words, whether this rank's program has left in place of the step. */
void weighing_leave(struct weighing *g, const struct dev_result *r, float *words);
enum weighing_outcome { WEIGHING_GOES_ON, WEIGHING_ALL_LEFT /* there is no step */ };
/* enum weighing_outcome, or the error of lockstep_say_left() if some programs have left and others
 * have not. With `equal` a program that was started again has left where the others have. */
int weighing_left(const struct weighing *g, const float *sums, struct err *e);
/* For gradients_set_judge: ctx is a struct weighing with l. */
bool weighing_judge(void *ctx, const float *sums, double *scale);
/* ERR_DATA: the programs do not make the same backward passes, so the sum means nothing. */
int weighing_check(const struct weighing *g, const struct work *w, const float *sums,
                   struct err *e);
/* Call it with the result rc of the sum. If other ranks summed something else: the error that says
 * what this rank's program did otherwise. Else rc. */
int weighing_failed(const struct weighing *g, const struct work *w, int rc, struct err *e);

#endif

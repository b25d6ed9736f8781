/* Minibatches for the speeds of nodes: the first ones of a job, and the split with which all nodes
 * finish a step together. balancer.h decides when minibatches change. Pure.
 */
#ifndef JOB_MINIBATCH_ASSIGN_H
#define JOB_MINIBATCH_ASSIGN_H

#include "job/minibatch/profile.h"
#include "job/spec/spec.h"

struct assignment {
    int version; /* 1 is the first */
    int workers;
    int sizes[SPEC_WORKERS]; /* their sum is the global batch; all 0 while that is not known */
    int64_t step;            /* the step at which it was decided */
    char reason[240];        /* a sentence: "slow computes 3.9x slower than the median" */
    /* Seconds of computing a step. Measured: with the sizes before; 0: not measured. Predicted: the
     * measured step times the change that the lines predict for the new sizes. */
    double measured_seconds, predicted_seconds;
};

/* The first sizes of a job, by its policy:
 *   equal    the same for all
 *   static   as the spec gives them
 *   dynamic  from profiles, where every worker has one; else equal within the memory that is known
 * All are 0 if the global batch is 0: a user's program has not told it yet. It is an error if B is
 * less than workers*min_batch or more than workers*max_batch, or if static minibatches are for
 * another number of workers. profiles[workers] may be NULL; sizes are multiples of quantum (4 on
 * CPUs, 8 on GPUs). */
int assign_first(struct assignment *out, const struct batching_spec *b, int workers,
                 const struct profile *const *profiles, int quantum, struct err *e);
/* The most samples that a worker with a minibatch of `size` gets in one step. samples: the training
 * set's; 0: not known. A larger global batch is never full. Then workers that step together share
 * the training set as they would share the batch; under a server each gets at most the whole
 * set. */
int assign_slice(const struct jobspec *spec, int size, int64_t samples);
/* Reduces minibatches to what a step takes. samples: the training set's; 0: not known. If workers
 * step together, they share the training set in the same proportions; under a server each gets at
 * most the whole set. */
void assign_taken(int *sizes, int workers, bool together, int64_t samples);
/* The largest minibatch of a node, by its memory and by the job; 0: there is no limit. The profile
 * may be NULL. */
int assign_limit(const struct batching_spec *b, const struct profile *p);
/* Equal-finish split: T solves sum clamp((T-a)/k, min, max) = B; rounded to multiples of `quantum`
 * (the fastest takes the remainder), sum B exactly. A node whose k is not positive gets its largest
 * minibatch. max_batch[i]: 0 is none; NULL: no worker has a limit. Returns the time of the slowest,
 * or a negative number if the bounds cannot hold B. */
double assign_equal_finish(const double *a, const double *k, const int *max_batch, int workers,
                           int B, int min_batch, int quantum, int *sizes);

/* The assignment in the API's form. names: [a->workers] nodes; time: when it was decided. A new
 * reference. */
json_t *assignment_json(const struct assignment *a, const char *const *names, const char *time);
int assignment_version(const json_t *assignment); /* the version in assignment_json()'s document; 0
                                                     for NULL */

#endif

/* Why minibatches change, in a sentence that names one node. Pure. */
#ifndef JOB_MINIBATCH_REASON_H
#define JOB_MINIBATCH_REASON_H

#include <stddef.h>

#include "job/minibatch/profile.h"

/* Speeds of workers at the time of a change. All arrays are the caller's. */
struct speeds {
    int workers;
    const int *sizes;         /* [workers] minibatches until now, samples, more than 0 */
    const double *seconds;    /* [workers] seconds of a step with them, as measured lately */
    const struct line *lines; /* [workers] the lines from which the next minibatches are made */
    const char *const *names; /* [workers] of their nodes */
};

/* Prints why minibatches become next[s->workers], which have the same sum. Measured times say who
 * is slow. If they contradict the change, the lines say it, and the sentence names this. */
void reason_print(const struct speeds *s, const int *next, char *out, size_t size);

#endif

/* Why minibatches change, in a sentence that names one node. Pure. */
#ifndef JOB_MINIBATCH_REASON_H
#define JOB_MINIBATCH_REASON_H

#include <stddef.h>

#include "job/minibatch/profile.h"

/* Speeds of workers at the time of a change. All arrays are the caller's. */
struct speeds {
    int workers;
    const int *sizes;         /* [workers] minibatches until now, samples, more than 0 */
    const double *seconds;    /* [workers] that a step with them takes, as measured lately */
    const struct line *lines; /* [workers] that the next ones are made from */
    const char *const *names; /* [workers] of their nodes */
};

/* Why minibatches become next[s->workers], which have the same sum. Who is slow goes by what was
 * measured; where that speaks against the change, by the lines, and the sentence says so. */
void reason_print(const struct speeds *s, const int *next, char *out, size_t size);

#endif

/* The line of a node from which minibatches are made. A profile follows a new speed within a few
 * steps; minibatches follow it once it has held for a while, so that a load that comes and goes
 * does not change them back and forth. Pure.
 */
#ifndef JOB_MINIBATCH_STEADY_H
#define JOB_MINIBATCH_STEADY_H

#include "job/minibatch/profile.h"

struct steady {
    struct line made; /* the line from which the current minibatch was made; 0, 0: none */
    bool waiting;     /* it waits for a new speed to hold; meanwhile `made` counts */
    double held;      /* how long the new speed has held, in steps at the old speed */
    double hold;      /* how long it must hold */
    int off;          /* the new speed: 1 slower than `made`, -1 faster, 0 about as fast */
    int way;          /* `off` of the last new speed that minibatches followed; 0: none yet */
    double at;        /* when that was, seconds of the job */
};

enum { STEADY_HOLD = 12 /* steps */ };

void steady_init(struct steady *s);
/* Adds `steps` measured steps of `seconds` each on average to the profile, and follows its speed.
 */
void steady_observe(struct steady *s, struct profile *p, int batch, double seconds, int steps);
struct line steady_line(const struct steady *s, const struct profile *p);
/* New minibatches have been made from steady_line(). batch: the node's minibatch until now;
 * step_seconds: how long a step of all nodes takes; now: seconds of the job. */
void steady_follow(struct steady *s, const struct profile *p, int batch, double step_seconds,
                   double now);

#endif

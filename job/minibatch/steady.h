/* The line of a node that minibatches are made from. A profile follows a new speed within a few
 * steps; minibatches follow it once it has held for a while, so that a load that comes and goes
 * does not change them back and forth. Pure.
 */
#ifndef JOB_MINIBATCH_STEADY_H
#define JOB_MINIBATCH_STEADY_H

#include "job/minibatch/profile.h"

struct steady {
    struct line made; /* the line that the present minibatch was made from; 0, 0: none */
    bool waiting;     /* for a new speed to hold; meanwhile `made` counts */
    double held;      /* for how long it has held, in steps at the speed before */
    double hold;      /* for how long it must hold */
    int off;          /* the new speed: 1 slower than `made`, -1 faster, 0 about as fast */
    int way;          /* `off` of the last new speed that minibatches followed; 0: none yet */
    double at;        /* when that was, seconds of the job */
};

enum { STEADY_HOLD = 12 /* steps */ };

void steady_init(struct steady *s);
/* One measured step, for the profile and for what is made of it. */
void steady_observe(struct steady *s, struct profile *p, int batch, double seconds);
struct line steady_line(const struct steady *s, const struct profile *p);
/* Minibatches have been made from that line: the node's was `batch` until now, and a step of all
 * takes `step_seconds`. `now`: seconds of the job. */
void steady_follow(struct steady *s, const struct profile *p, int batch, double step_seconds,
                   double now);

#endif

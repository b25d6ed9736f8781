/* Whether an elastic job should grow now. Each change of its size costs some seconds without a
 * step, so it must not change with every node that comes and goes. Pure. */
#ifndef COORDINATOR_PLANNING_GROWTH_H
#define COORDINATOR_PLANNING_GROWTH_H

#include <stdbool.h>

struct growth_rules {
    double settle; /* seconds for which a node must have been free */
    double every;  /* seconds from the start of an attempt until it may grow */
    double worth;  /* what is gained is at least so many times the cost */
};

struct growth {
    int workers, then;        /* now, and afterwards */
    double speed, speed_then; /* of all of them together, in any unit */
    double age;               /* seconds since the attempt started */
    double left;              /* seconds that the job still takes as it is; negative: not known */
    double cost;              /* seconds that a change took the last time; 0: not known */
};
bool growth_is_worth(const struct growth_rules *rules, const struct growth *g);
/* Has a node that is free since then been free for long enough? */
bool growth_is_settled(const struct growth_rules *rules, double since, double now);

#endif

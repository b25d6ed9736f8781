/* Elastic jobs grow: onto nodes that have been free for a while, and that no job in the queue of
 * their priority or a higher one waits for. They shrink in preempt.c.
 */
#ifndef COORDINATOR_TURN_ELASTIC_H
#define COORDINATOR_TURN_ELASTIC_H

#include "common/text/names.h"
#include "coordinator/planning/growth.h"
#include "coordinator/turn/attempts.h"
#include "coordinator/turn/queue/queue.h"

struct elastic {
    struct growth_rules rules;
    struct names free_since; /* node → the time since which it is free, or its worker lost */
    double looked_at;
};

void elastic_init(struct elastic *x, const struct growth_rules *rules);
void elastic_release(struct elastic *x);
/* queue: for what jobs in it wait for, and for its shares. Negative: the store is away. */
int elastic_tick(struct elastic *x, struct attempts *a, struct queue *queue, double now,
                 struct err *e);

#endif

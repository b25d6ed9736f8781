/* Room for a job that waits for nodes which other jobs hold (docs/shares.md).
 *
 *   elastic jobs shrink   for one of higher priority; or of their own, whose owner does not use
 *                         more nodes afterwards than theirs: at once
 *   jobs are paused       for one of higher priority that has waited for a while
 *
 *   job A, priority 5, waits ─► B and C, priority 0, write a checkpoint ─► A starts
 *                               and go back to the queue, from where they resume by themselves
 *
 * No job is paused for one of its own priority or a lower one, so two jobs never pause each other;
 * and an attempt is left alone until it has run for a while, so that jobs of high priority that
 * come one after another do not keep one from ever getting further.
 */
#ifndef COORDINATOR_TURN_PREEMPT_H
#define COORDINATOR_TURN_PREEMPT_H

#include "coordinator/planning/placement.h"
#include "coordinator/turn/shares.h"

struct preempt_ask {
    const char *job; /* that waits */
    const struct placement_ask *place;
    const struct shares *shares;
    bool pauses; /* jobs may be paused for it; else they may shrink alone */
    double keep; /* seconds for which an attempt that started is not paused */
    double now;
};
/* Tells attempts to give nodes back, so that the job finds its own: as few as will do, of the
 * lowest priorities, and of these those that started last; of an elastic one its slowest nodes
 * before all. None where that would not help, or where nodes that are given back already will do.
 */
void preempt_for(struct attempts *a, const struct preempt_ask *ask);

#endif

/* Preemption: a job that has waited for nodes which jobs of lower priority hold gets them; those
 * are paused (docs/shares.md).
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
#include "coordinator/turn/attempts.h"

/* Tells attempts to give their nodes back, so that `ask`, of this job, finds its nodes: as few as
 * will do, of the lowest priorities, and of these those that started last. None where that would
 * not help, or where nodes that are given back already will do. */
void preempt_for(struct attempts *a, const char *job, const struct placement_ask *ask, double keep,
                 double now);

#endif

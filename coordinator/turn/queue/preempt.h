/* Room for a job that waits for nodes which other jobs hold (docs/shares.md).
 *
 *   elastic jobs shrink   at once: for a job of higher priority, or for one of equal priority whose
 *                         owner then uses no more nodes than theirs
 *   jobs are paused       for one of higher priority that has waited for a while
 *
 *   job A, priority 5, waits ─► B and C, priority 0, write a checkpoint ─► A starts
 *                               and go back to the queue, from where they resume by themselves
 *
 * No job is paused for one of its own priority or a lower one, so two jobs never pause each other;
 * and an attempt is left alone until it has run for a while, so that jobs of high priority that
 * come one after another do not keep one from ever getting further.
 */
#ifndef COORDINATOR_TURN_QUEUE_PREEMPT_H
#define COORDINATOR_TURN_QUEUE_PREEMPT_H

#include "coordinator/planning/placement.h"
#include "coordinator/turn/queue/shares.h"

struct preempt_ask {
    const char *job; /* that waits */
    const struct placement_ask *place;
    const struct shares *shares;
    bool pauses; /* jobs may be paused for it; else they may only shrink */
    double keep; /* seconds for which an attempt that started is not paused */
    double now;
};
/* Tells attempts to give nodes back until the job has enough: as few attempts as possible, those of
 * the lowest priority first, and among these the ones that started last. An elastic job gives up
 * its slowest nodes first. Asks none if that would not help, or if nodes that are already being
 * given back are enough.
 */
void preempt_for(struct attempts *a, const struct preempt_ask *ask);

#endif

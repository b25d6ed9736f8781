/* The size of an elastic job changes by a planned change of its attempt at a step boundary
 * (docs/decisions/0030).
 *
 *   resize_ask    its ranks write a checkpoint and end, as for a pause
 *   resize_keep   the attempt has ended, the job is queued: the nodes that it goes on with stay its
 *                 own, the others are free
 *   (queue.c      starts it, on those and on what is free)
 *   resize_begin  its next attempt begins: what has changed, and why
 *   resize_stepped  it steps again: how long that took
 *   resize_over   it could not be started at once: it is a queued job as any other
 *
 * No restart is counted. What is between two attempts is in memory alone: if the coordinator ends
 * there, the next one frees the nodes, and the job starts on what is free.
 */
#ifndef COORDINATOR_TURN_RESIZE_H
#define COORDINATOR_TURN_RESIZE_H

#include "coordinator/turn/attempts.h"
#include "job/minibatch/assign.h"

/* gives: an object of the nodes that it gives up (taken over), or NULL: it grows. why: for whom. */
void resize_ask(struct run *r, json_t *gives, const char *why);
int resize_keep(struct attempts *a, struct run *r, struct err *e);
/* Is the job between two attempts of different size? */
bool resize_is_between(const struct attempts *a, const char *job);
/* Then: its own nodes are taken out of `reserved`; where it shrinks, all others are added. */
void resize_reserve(const struct attempts *a, const char *job, const json_t *nodes,
                    json_t *reserved);
/* The reason of its first assignment, its event, and the job's field `resizes`. Nothing where the
 * attempt does not change the size. */
void resize_begin(struct attempts *a, struct run *r, struct assignment *first);
void resize_stepped(struct attempts *a, struct run *r, double now);
/* All jobs between two attempts have had their try: what they claimed and do not use is free. */
void resize_over(struct attempts *a, const json_t *nodes);

#endif

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

/* gives: the nodes that it gives up (taken over, and empty afterwards), or NULL: it grows. why: for
 * which job. */
void resize_ask(struct run *r, struct names *gives, const char *why);
int resize_keep(struct attempts *a, struct run *r, struct err *e);
/* Is the job between two attempts of different size? */
bool resize_is_between(const struct attempts *a, const char *job);
/* For a job between two attempts: takes its own nodes out of `reserved`; if it shrinks, adds all
 * others. */
void resize_reserve(const struct attempts *a, const char *job, const json_t *nodes,
                    struct names *reserved);
/* Fills in the reason of the first assignment, publishes the event and writes the job's field
 * `resizes`. Does nothing if the attempt does not change the size. */
void resize_begin(struct attempts *a, struct run *r, struct assignment *first);
void resize_stepped(struct attempts *a, struct run *r, double now);
/* All jobs between two attempts have been tried: releases nodes that they claimed and do not
 * use. */
void resize_over(struct attempts *a, const json_t *nodes);

#endif

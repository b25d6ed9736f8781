/* The limit by the wall clock: max_wall_seconds of a spec, counted from the job's first start
 * (`started` in the store), whatever the job did since. An attempt beyond the limit is told to
 * stop, and ended if it does not; a queued job beyond it gets no further attempt.
 */
#ifndef COORDINATOR_TURN_WALL_H
#define COORDINATOR_TURN_WALL_H

#include "job/spec/spec.h"
#include "store/store.h"

/* Is the job beyond the limit? Then *why says so. Asks the store only if the spec has the limit.
 * False for a job that never started, and if the store does not answer. `began` remembers the start
 * between calls, by clock_now(), so that it does not move when somebody sets the wall clock (0: not
 * known yet); NULL: it is read each time. */
bool wall_is_over(struct store *s, const char *job, const struct jobspec *spec, double *began,
                  struct err *why);

#endif

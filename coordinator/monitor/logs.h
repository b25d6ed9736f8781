/* Logs: the attempt's output, in which mpirun tags every line of a rank, is split into
 * JOBDIR/logs/rank-R.log and attempt.log (mpirun's own words), which run on over attempts.
 *
 *   attempt-2.out   [1,3]<stderr>:ts=… msg="ready"   ─►  rank-3.log   ts=… msg="ready"
 */
#ifndef COORDINATOR_MONITOR_LOGS_H
#define COORDINATOR_MONITOR_LOGS_H

#include <limits.h>
#include <stdbool.h>

struct logs {
    char output[PATH_MAX]; /* the attempt's */
    const char *job_dir;   /* borrowed */
    int ranks;
    long offset; /* of the output, split up to here */
};

/* Reads on from `offset`: to the end, or some megabytes, and the rest at the next turn. */
void logs_read(struct logs *l, bool all);

#endif

/* States of a job and the one transition table (docs/semantics.md#states-of-a-job). The store
 * changes states only by compare-and-set along these arrows.
 */
#ifndef JOB_STATE_H
#define JOB_STATE_H

#include <stdbool.h>

#define JOB_STATES(X)           \
    X(QUEUED, "queued")         \
    X(LAUNCHING, "launching")   \
    X(RUNNING, "running")       \
    X(PAUSING, "pausing")       \
    X(PAUSED, "paused")         \
    X(CANCELLING, "cancelling") \
    X(CANCELLED, "cancelled")   \
    X(SUCCEEDED, "succeeded")   \
    X(FAILED, "failed")

enum job_state {
#define X(id, name) JOB_##id,
    JOB_STATES(X)
#undef X
        JOB_STATE_COUNT
};

const char *jobstate_name(enum job_state s);
int jobstate_find(const char *name); /* -1 if there is none */
bool jobstate_allowed(enum job_state from, enum job_state to);
bool jobstate_ended(enum job_state s); /* succeeded, failed, cancelled */

#endif

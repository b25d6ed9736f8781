/* States of a sweep. It runs until nothing is left to try or somebody asks it to end; it has
 * succeeded if one trial has a result.
 *
 *   running ──► succeeded | failed
 *      └────► cancelling ──► cancelled
 */
#ifndef JOB_SWEEP_STATE_H
#define JOB_SWEEP_STATE_H

#include <stdbool.h>

#define SWEEP_STATE_NAMES "running|cancelling|cancelled|succeeded|failed"

enum sweep_state {
    SWEEP_RUNNING,
    SWEEP_CANCELLING,
    SWEEP_CANCELLED,
    SWEEP_SUCCEEDED,
    SWEEP_FAILED,
    SWEEP_STATE_COUNT
};

const char *sweep_state_name(enum sweep_state state);
int sweep_state_find(const char *name); /* -1 if there is none */
static inline bool sweep_state_ended(enum sweep_state state)
{
    return state > SWEEP_CANCELLING;
}

#endif

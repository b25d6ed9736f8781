/* States of a job and the arrows between them: the table of docs/semantics.md#states-of-a-job and
 * nothing else.
 *
 * The store moves a job only by compare-and-set along these arrows, so two coordinators, a user's
 * cancel and a dying attempt can race without a job ever being in two states. A job whose attempt
 * was lost goes back to `queued` (not to `launching`), and `paused` has no arrow to `cancelling`,
 * because nothing is running that would have to stop.
 *
 *   queued ──► launching ──► running ──► succeeded | failed
 *     ▲            │            │ └────► pausing ──► paused ──► queued
 *     └── lost ────┴────────────┘           └─ lost ─► queued | failed
 *   any of queued, launching, running, pausing ──► cancelling ──► cancelled
 */
#include "job/state.h"

#include <stddef.h>
#include <string.h>

static const char *const names[JOB_STATE_COUNT] = {
#define X(id, name) [JOB_##id] = name,
    JOB_STATES(X)
#undef X
};

#define TO(state) (1u << JOB_##state)
static const unsigned arrows[JOB_STATE_COUNT] = {
    [JOB_QUEUED] = TO(LAUNCHING) | TO(CANCELLING) | TO(FAILED),
    [JOB_LAUNCHING] = TO(RUNNING) | TO(QUEUED) | TO(FAILED) | TO(CANCELLING),
    [JOB_RUNNING] = TO(SUCCEEDED) | TO(FAILED) | TO(PAUSING) | TO(CANCELLING) | TO(QUEUED),
    [JOB_PAUSING] = TO(PAUSED) | TO(QUEUED) | TO(FAILED) | TO(CANCELLING),
    [JOB_PAUSED] = TO(QUEUED) | TO(CANCELLED),
    [JOB_CANCELLING] = TO(CANCELLED),
};

static bool known(enum job_state s)
{
    return (int)s >= 0 && (int)s < JOB_STATE_COUNT;
}

const char *jobstate_name(enum job_state s)
{
    return known(s) ? names[s] : "unknown";
}

int jobstate_find(const char *name)
{
    for (int i = 0; name != NULL && i < JOB_STATE_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

bool jobstate_allowed(enum job_state from, enum job_state to)
{
    return known(from) && known(to) && (arrows[from] >> to & 1u) != 0;
}

bool jobstate_ended(enum job_state s)
{
    return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED;
}

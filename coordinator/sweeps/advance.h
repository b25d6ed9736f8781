/* What a sweep does next: a pure function of its document and its jobs, without store or clock.
 *
 *   what the store says of the jobs ─► advance_note ─► runs ─► advance_next ─► submit | wait | end
 *
 * Everything is computed from the list of jobs (job/sweep/runs.h), so a coordinator that takes over
 * decides the same. A job's place in the list makes its idempotency key: one that was submitted and
 * not yet written down is found again instead of made twice.
 */
#ifndef COORDINATOR_SWEEPS_ADVANCE_H
#define COORDINATOR_SWEEPS_ADVANCE_H

#include "job/sweep/runs.h"
#include "job/sweep/state.h"

/* Takes over states and metrics. `jobs`: documents of those that have not ended, with "id", "state"
 * "metrics" and "logged"; a job that is missing in it was deleted. true: something has changed. */
bool advance_note(const struct sweep *sweep, struct sweep_runs *runs, const json_t *jobs);

enum advance_what {
    ADVANCE_SUBMIT, /* the job *run, which goes on from `before` (-1: from the start) */
    ADVANCE_CANCEL, /* all jobs that have not ended */
    ADVANCE_WAIT,
    ADVANCE_END /* in the state `to` */
};
struct advance {
    enum advance_what what;
    struct sweep_run_id run;
    int before;
    enum sweep_state to;
};
/* `cancelling`: somebody asked the sweep to end. */
struct advance advance_next(const struct sweep *sweep, const struct sweep_runs *runs,
                            bool cancelling);

/* The idempotency key of the next job in the list. */
enum { ADVANCE_KEY = 64 };
void advance_key(char out[ADVANCE_KEY], const char *sweep, int place);

#endif

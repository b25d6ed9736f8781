/* One attempt's turn (run.c), its end (end.c), and what is different for a virtual one
 * (virtual.c).
 */
#ifndef COORDINATOR_TURN_RUN_RUN_H
#define COORDINATOR_TURN_RUN_RUN_H

#include "coordinator/turn/attempts.h"

enum run_turn {
    RUN_GOES_ON,
    RUN_SETTLED /* it has ended, and its job is in the state where it belongs */
};
/* One turn. `seen`: what the scheduler saw of jobs, or NULL; the store is asked for a job that is
 * not there. enum run_turn, or negative: try again. */
int run_tick(struct attempts *a, struct run *r, const struct store_overview *seen, double now,
             struct err *e);
/* Ends the process of a job that was cancelled (or of all, in a drain) and does not follow. Asks
 * nothing of the store: a store that does not answer in time, on a busy machine, must not keep a
 * job from ending. */
void run_enforce(struct run *r, double now);

/* end.c: the process of this attempt has ended. RUN_SETTLED, or RUN_GOES_ON or
 * negative: call it again. */
int run_finish(struct attempts *a, struct run *r, double now, struct err *e);
/* An attempt that was lost: its job goes back to the queue, or has failed once that has happened
 * max_restarts times, or where another attempt would meet the same error again. */
struct loss {
    enum job_state state; /* what the job is in */
    const struct failure *why;
    bool blameless; /* the coordinator's end or a host's, not the job's: no restart is counted */
    bool in_start;  /* a worker was killed during the start: the first few such losses of a job
                           count as no restart either */
    double lasted, now; /* how long it lived */
};
int run_lost(struct attempts *a, const char *job, const struct jobspec *spec,
             const struct loss *loss, struct err *e);
/* Must it give its nodes back without a failure, because the coordinator or one of its hosts stops?
 */
bool run_is_draining(const struct attempts *a, const struct run *r);

/* virtual.c: publishes what the simulator has written since the last call. */
void run_virtual_tick(struct attempts *a, struct run *r);
/* Has one that runs elsewhere ended? Its summary is there, or why it failed, or it has written
 * nothing for a minute. */
bool run_virtual_silent(struct attempts *a, struct run *r, double now);
/* Publishes its summary; false: the run ended before it wrote one, and r->failure says why where it
 * does. */
bool run_virtual_finish(struct attempts *a, struct run *r);

#endif

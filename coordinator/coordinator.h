/* The coordinator: `evenstep serve`. Policy and processes; the facts are in the store.
 *
 *   serve.c ─► scheduler ─┬─► recover ──────────────┐
 *                         ├─► run ──────────────────┴─► end ─► virtual ─┐
 *                         ├─► queue ─► launch ─► planner ───────────────┼─► attempts
 *                         └─► elastic ──────────────────────────────────┘
 *
 *   recover  jobs that nobody has in hand      run      an attempt's turn
 *   end      the job's next state              queue    which jobs start now
 *   launch   how a job's next attempt starts   planner  its plan
 *   elastic  which jobs grow                   virtual  what the simulator reports
 *   attempts the attempts in hand; turn/attempts.h has the whole picture
 *
 * Below them:
 *
 *   monitor/   rows, facts and heartbeats → profiles, staleness, live document, history,
 *              minibatches, lost ranks (monitor/parts.h has its picture)
 *   placement  which nodes a job gets         profiles  what is known of nodes from earlier jobs
 *   launcher   how an attempt comes to life: mpirun, or the simulator
 *
 * Outside the turn: lease (which coordinator works), dryrun and predict (what http/ asks), hosts
 * (who may join), localnodes, retention.
 *
 * The scheduler is one function, sched_tick(now), driven by a loop; tests drive it with a fake
 * clock and a fake launcher.
 */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

#include "common/opt.h"

extern const struct opt serve_options[]; /* config.c */
/* Exit status of `serve` where another coordinator works on the store, or has taken over; 1: it
 * could not start; 0: it was told to end. */
enum { SERVE_ELSEWHERE = 3 };
/* Runs until SIGINT or SIGTERM (running jobs write a checkpoint and wait for the next start), until
 * SIGUSR1 (they go on, and the next start adopts them), or until another coordinator has taken
 * over. Exit status. */
int serve_main(int argc, char **argv);

#endif

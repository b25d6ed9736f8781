/* The coordinator: `evenstep serve`. Policy and processes; the facts are in the store.
 *
 *   scheduler  one function, sched_tick(now), driven by a loop; tested with a fake clock and a fake launcher
 *   placement  which nodes a job gets
 *   launcher   how an attempt comes to life
 *   monitor    rows and heartbeats → profiles, staleness, live document, history, minibatches, lost ranks
 *   recover    what was running when the coordinator died: adopted or resumed
 */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

#include "common/opt.h"

extern const struct opt serve_options[]; /* config.c: DESIGN.md section 9 */
/* Runs until SIGINT or SIGTERM. Exit status. */
int serve_main(int argc, char **argv);

#endif

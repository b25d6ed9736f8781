/* Launcher: how an attempt of a job comes to life. Implementations: launcher_mpirun.c, launcher_sim.c (the simulator on
 * a virtual cluster) and a scripted fake in the tests. The store is the truth about a job; what poll() says is a hint.
 */
#ifndef COORDINATOR_LAUNCHER_H
#define COORDINATOR_LAUNCHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct attempt {
    char job[17];
    int number;
    pid_t pid;            /* of mpirun or the simulator */
    uint64_t start_ticks; /* with pid: the very process (recorded in the store, so that a restarted coordinator adopts it) */
};

struct launcher {
    void *ctx;
    const char *name; /* "mpirun", "simulator", "fake" */
    /* plan: {"job","attempt","workers":[{"rank","node","host","device","slowdown"}],"servers":n, "job_dir", …}. Fills a->pid and start_ticks. */
    int (*start)(void *ctx, struct attempt *a, const json_t *plan, struct err *e);
    /* 0 running, 1 ended (*exit_code, and what stderr's end says in `why`). */
    int (*poll)(void *ctx, const struct attempt *a, int *exit_code, char *why, size_t why_bytes);
    /* TERM, then KILL after `grace` seconds; returns when it is gone with its ranks. */
    void (*stop)(void *ctx, const struct attempt *a, double grace);
};

#endif

/* Launcher: how an attempt of a job comes to life. Implementations: mpirun.c,
 * sim.c (the simulator on a virtual cluster) and a scripted fake in the tests. The store
 * is the truth about a job; what poll() says is a hint.
 */
#ifndef COORDINATOR_LAUNCHERS_LAUNCHER_H
#define COORDINATOR_LAUNCHERS_LAUNCHER_H

#include <sys/types.h>

#include "common/process/run_as.h"
#include "job/documents/coordinator/plan.h"
#include "job/seal.h"

struct attempt {
    char job[17];
    int number;
    pid_t pid;            /* of mpirun or the simulator */
    uint64_t start_ticks; /* identifies the process together with pid; recorded in the store, so
                             that a restarted coordinator adopts it */
    struct sign_key seal; /* of a new attempt: the key with which its ranks seal their reports */
    bool own_users;       /* its ranks on hosts with agents have users of the store */
};

/* How an attempt has ended, as its launcher can tell. All 0: nothing is known. */
struct attempt_end {
    int exit_code; /* of its process; -1: not known */
    bool named;    /* its output names the rank that ended first: `rank` */
    bool unnamed;  /* ranks failed, and the output cannot say because of which one */
    bool killed;   /* the named rank was killed by a signal that no process can catch */
    int rank;
    char host[PLAN_HOST]; /* the host whose agent started no daemon, so that no rank ran; or "" */
    char why[300]; /* how the named rank ended, or the agent's reason; else the last words of the
                      output, or "" */
};

struct launcher {
    void *ctx;
    const char *name; /* "mpirun", "simulator", "fake" */
    /* Starts the ranks of this plan. Fills a->pid and start_ticks. */
    int (*start)(void *ctx, struct attempt *a, const struct plan *plan, struct err *e);
    /* Does the attempt run on this host? Then it fills a->pid and start_ticks. Used where the
     * coordinator ended before it could record them. */
    bool (*find)(void *ctx, struct attempt *a);
    /* Has it ended? Then *end says how. */
    bool (*poll)(void *ctx, const struct attempt *a, struct attempt_end *end);
    /* TERM, then KILL after `grace` seconds; returns when it is gone with its ranks. */
    void (*stop)(void *ctx, const struct attempt *a, double grace);
};

/* What the real launchers need; every string is borrowed and must outlive the launcher. */
struct launcher_config {
    const char *data_dir; /* absolute; jobs/ID/logs is beneath it */
    const char *store_url, *store_password;
    const char *program;     /* evenstep-worker or evenstep-simulate: an absolute path */
    const char *interface;   /* network for Open MPI between hosts (--interface); NULL: the hosts'
                                own network */
    const char *ports;       /* FIRST-LAST that Open MPI may listen on, or NULL */
    const struct run_as *as; /* the user that workers of this host become once MPI has connected
                                them */
};

/* mpirun.c: one mpirun per attempt, in a session of its own. Workers whose plan says
 * "agent" are started by their host's agent. Its output is DIR/jobs/ID/logs/attempt-N.out, lines of
 * ranks tagged "[1,RANK]<stderr>:". */
int launcher_mpirun_init(struct launcher *out, const struct launcher_config *config, struct err *e);
/* Reads Open MPI's sentence in end->why, and fills the rest of `end` except the exit code. */
void mpirun_read_end(struct attempt_end *end);
/* sim.c: a virtual cluster. One niced process on this host that writes summary.json and
 * history into DIR/jobs/ID. */
int launcher_sim_init(struct launcher *out, const struct launcher_config *config, struct err *e);
void launcher_release(struct launcher *l); /* frees ctx; ends nothing */

/* process.c, shared by both. */
int attempt_start(const char *data_dir, struct attempt *a, const char *const *argv,
                  const char *const *env, struct err *e);
/* Finds the attempt's process by its environment, which names job and attempt. */
bool attempt_find(void *ctx, struct attempt *a);
/* `telling`: words that mark a line which says why, best first, NULL-terminated. end->why is the
 * line with the best of these words, or the last line that is not empty. */
bool attempt_poll(const char *data_dir, const struct attempt *a, const char *const *telling,
                  struct attempt_end *end);
/* Ends the process, then every process of this host whose environment says that it belongs to the
 * attempt. */
void attempt_stop(const struct attempt *a, double grace);
/* DIR/jobs/ID/logs/attempt-N.out into path[4096]. */
char *attempt_output(char *path, const char *data_dir, const char *job, int number);

#endif

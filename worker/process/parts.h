/* One rank's process, which the files of this folder share:
 *
 *     process.c ─► user.c, doors.c   MPI's start, the user, the transport; the outcome, MPI's end
 *        └─► rank.c                  telemetry; samples and device; then trainer or keeper
 *              └─► own_program.c     in their place a user's own program
 */
#ifndef WORKER_PROCESS_PARTS_H
#define WORKER_PROCESS_PARTS_H

#include <signal.h>

#include "worker/config.h"
#include "worker/exchange/seat.h"
#include "worker/local.h"
#include "worker/program/files/results.h"
#include "worker/program/program.h"
#include "worker/pulse/pulse.h"
#include "worker/training/trainer.h"

/* All zeros in a job without a program, except copy.lock. */
struct own_program {
    struct program program;
    struct own_folder copy; /* of an uploaded program; lock -1: there is none */
    struct results results; /* what the program writes */
    struct seat seat;       /* for a worker that was started again: the keeper's answer */
};

struct process {
    struct worker_config *c;           /* borrowed */
    const volatile sig_atomic_t *stop; /* set by a signal that asks for the end */
    struct transport *transport;
    struct comm comm;
    int rank;
    struct sign_key seal; /* this rank's seal in the attempt */
    struct telemetry telemetry;
    struct pulse *pulse; /* NULL with --local */
    struct local local;  /* used instead of the pulse */
    struct dataset data;
    bool data_there; /* `data` is of a file or of drawn samples, and must be released */
    struct own_program own;
    struct trainer_env env; /* of the run; valid until the process ends */
    bool joined;            /* a worker that was started again takes part */
};

/* A worker on the service's own host becomes the user of --run-as once MPI, which compares users,
 * has connected the ranks. From then on it works as on another host: it keeps files in a folder of
 * its user, and sends what it leaves to the keeper. The keeper keeps its user. */
int user_become(struct worker_config *c, struct err *e);

/* For a rank of an attempt that restarts workers: opens the door by which a restarted worker
 * reaches it, or, for a restarted worker, reaches the others. */
void doors_prepare(struct process *w);
/* In such an attempt on several hosts, all ranks get a key from the keeper. A restarted worker has
 * that of the process before it. Every rank calls it. */
int doors_share_key(struct process *w, struct err *e);
/* Connects a worker that was started again with the keeper. */
int doors_reach_keeper(struct process *w, struct err *e);

/* Runs from an open transport to the run's end. Returns enum run_outcome, or negative. */
int rank_run(struct process *w, struct err *e);

/* Starts the program, which joins those of the other ranks. It brings samples and network and, if
 * the job left the batch to it, the first minibatches. `node`: of this rank. Call
 * own_program_close() after an error too. */
int own_program_open(struct process *w, const char *node, struct err *e);
/* Moves the program's files to the job's folder if the run has ended well (rc >= 0), and removes
 * its copy. Returns rc, or negative if the files cannot be moved. */
int own_program_close(struct process *w, int rc, struct err *e);

#endif

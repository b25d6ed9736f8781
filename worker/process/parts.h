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

/* All zeros in a job without a program, but for copy.lock. */
struct own_program {
    struct program program;
    struct own_folder copy; /* of an uploaded program; lock -1: there is none */
    struct results results; /* what the program writes */
    struct seat seat;       /* of a worker that was started again: what the keeper said */
};

struct process {
    struct worker_config *c;           /* borrowed */
    const volatile sig_atomic_t *stop; /* a signal has asked for the end */
    struct transport *transport;
    struct comm comm;
    int rank;
    struct sign_key seal; /* this rank's, of a job's attempt */
    struct telemetry telemetry;
    struct pulse *pulse; /* NULL with --local */
    struct local local;  /* in its place */
    struct dataset data;
    bool data_there; /* of a file or of drawn samples, to be released */
    struct own_program own;
    struct trainer_env env; /* of the run; there until the process ends */
    bool joined;            /* of a worker that was started again: it takes part */
};

/* A worker that the service starts on its own host becomes the user of --run-as once MPI, which
 * compares users, has connected the ranks. From here on it is as on another host: what it keeps is
 * in a folder of its user, and the keeper gets what it leaves. The keeper stays who it is. */
int user_become(struct worker_config *c, struct err *e);

/* Of a rank of an attempt whose workers may be started again: where these reach it, or it the
 * others. */
void doors_prepare(struct process *w);
/* In such an attempt on several hosts all ranks get a key from the keeper; one that was started
 * again has that of the process before. Every rank calls it. */
int doors_share_key(struct process *w, struct err *e);
/* Of a worker that was started again: connects it with the keeper. */
int doors_reach_keeper(struct process *w, struct err *e);

/* From an open transport to the run's end: enum run_outcome, or negative. */
int rank_run(struct process *w, struct err *e);

/* The program starts and joins those of the other ranks; it brings samples and network, and if the
 * job left the batch to it, the first minibatches. `node`: of this rank. After an error too
 * own_program_close() is called. */
int own_program_open(struct process *w, const char *node, struct err *e);
/* Moves what the program wrote to the job's folder if the run has ended well (rc >= 0), and removes
 * its copy. Returns rc, or negative where the files cannot be moved. */
int own_program_close(struct process *w, int rc, struct err *e);

#endif

/* The pulse's state, which its two sides share: trainer_side.c (calls of the thread that trains)
 * and pulse.c (the thread that owns the connection). */
#ifndef WORKER_PULSE_PARTS_H
#define WORKER_PULSE_PARTS_H

#include <pthread.h>
#include <time.h>

#include "job/documents/ranks/fact.h"
#include "job/staleness.h"
#include "job/row.h"
#include "store/store.h"
#include "worker/pulse/log_queue.h"
#include "worker/pulse/pulse.h"

enum { PULSE_ROWS = 16384, PULSE_FACTS = 256 };

/* CPU time of steps of one minibatch size; older steps count less. */
struct cpu_used {
    double seconds, steps;
    int batch, last; /* of these steps, and of the previous step */
    double at;       /* the process's CPU time at the end of the previous step */
    double program;  /* CPU time of a user's program, another process, in this step */
    bool elsewhere;  /* the process has used CPU time for something else since then */
};

struct pulse {
    /* set at the start */
    struct sender from; /* of what this rank writes */
    char node[DOCUMENT_NODE];
    int workers, first_version;
    bool reads_control, reads_each_turn;
    double (*comm_age)(void *ctx);
    bool (*comm_hangs)(void *ctx);
    void *comm_ctx;
    const volatile sig_atomic_t *stop_signal;
    pthread_t thread;

    /* of the thread alone */
    struct store *store;
    double lost_at;                /* when a loss or a restart of a worker was told */
    int hanging;                   /* consecutive turns without any exchange */
    int64_t strays;                /* control documents of other attempts, or damaged */
    double quota_read, quota_next; /* a CPU quota; clock_now() of the next reading */

    /* of both sides */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    bool stopping;
    double stop_by;

    /* what goes up */
    struct row *rows;           /* ring of PULSE_ROWS; owned */
    uint64_t first_row, n_rows; /* number of the oldest one kept; of the next one to come */
    uint64_t dropped;
    int64_t undone_to;          /* rows up to this step were queued already */
    json_t *facts[PULSE_FACTS]; /* documents; owned */
    int n_facts;
    struct log_queue logged;
    int64_t number; /* of the newest fact or heartbeat */

    /* what comes down */
    struct control control;
    bool seats_taken;      /* some of control.seats are not 0 */
    bool checkpoint_asked; /* the document's flag as last read, to see it rise */
    json_t *doors;         /* control_doors(); owned */

    /* what heartbeats say of this rank */
    enum phase phase;
    double progress_at;
    clockid_t trainer;        /* clock of the training thread's CPU time */
    double worked, worked_at; /* that CPU time at its last growth; clock_now() then */
    double quota;             /* CPUs that this process may use; 0: no limit */
    struct cpu_used cpu;
    int64_t step, samples, updates;
    int64_t received, receives; /* bytes received of the keeper's data set; receives 0: none */
    double epoch, busy_fraction;
    int batch;
    struct staleness staleness;
    char door[DOCUMENT_DOOR]; /* the address of this rank's door; empty: none */
};

/* trainer_side.c: queues a fact. The caller holds the lock. */
void pulse_queue(struct pulse *p, struct fact *fact);

#endif

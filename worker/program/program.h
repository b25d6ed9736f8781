/* A user's own program in a rank: the process, the link to it, the block it shares, and what it
 * said of itself. The rank is ours, the program is its child (docs/decisions/0011).
 *
 *     program_join   every rank of the attempt: programs start and describe themselves, ranks
 *                    compare, all get network, batch and epochs, the keeper the first parameters
 *     program_return, program_go_on, program_await
 *                    the same of a worker that takes the seat of one that died
 *     program_engine a worker's: the engine that trainer_run computes with
 *     program_leave  ends it
 */
#ifndef WORKER_PROGRAM_PROGRAM_H
#define WORKER_PROGRAM_PROGRAM_H

#include "job/documents/ranks/joined.h"
#include "worker/engine.h"
#include "worker/program/child/block.h"
#include "worker/program/child/describe.h"
#include "worker/program/child/link.h"
#include "worker/program/child/peers.h"

struct program_ask {
    struct comm *comm; /* borrowed until program_leave, as all */
    struct telemetry *telemetry;
    struct jobspec *spec; /* gets what the program brings (description_apply) */
    const char *job;      /* its id; NULL: none */
    const char *node;     /* of this rank */
    const char *job_dir;  /* the keeper's, for a checkpoint to go on from; or NULL */
    const char *init;     /* the file or folder that the spec's `init` names; or NULL */
    const char *output;   /* what the program may write to; NULL: nothing is kept */
    const char *folder;   /* to run in; NULL: ours */
    const char *data;     /* this host's folders of data sets, which the program is told */
    const char *device;   /* of the node */
    int threads;          /* of that */
    int attempt;          /* of the job, from 1 */
    int seat;             /* how often this worker was started again within it */
};

struct program {
    struct program_ask ask;
    struct telemetry *telemetry; /* borrowed */
    enum phase phase;            /* told again while the rank waits for the program */
    struct child child;
    struct program_end end; /* of the child, once the program has left */
    bool fell_first;        /* then: its process had ended, or given up, before this worker made a
                               step with it, and did not say that it would fail again */
    struct link link;
    struct peers peers; /* where the programs of all ranks meet, if they do */
    struct block block;
    struct description about; /* its network is the spec's by now */
    bool there;               /* a worker's: there is a process */
    double ready_by;          /* clock_now() when a process that is started must be ready; 0: any */
    int incarnation;          /* processes of this rank before this one */
    int threads;              /* of the node, which its CPU time is divided by */
    int ahead, slots;         /* slices in advance; places for their indices */
    bool resumed;             /* a checkpoint is there */
    bool refused;             /* it would fail again, and says so (es_refused) */
    struct own_state state;   /* that the program goes on from, until its first step is made */
    double epochs;            /* that the program told after its description; 0: none; infinite: as
                                 many as its loop makes */
    bool more;                /* it may make more than it told */
    bool open;                /* the run ends at an epoch's end, when the program leaves */
    bool runs;                /* all have joined */
    bool stepped;             /* gradients came, of one of this worker's processes */
    bool awaits;              /* it has described itself, and goes on where another rank stands */
    /* the first parameters and statistics, of rank 0's program; NULL on workers (they are in the
     * block); owned */
    float *params, *stats;
};

/* Collective: every rank of the attempt calls it. On workers it starts the program. */
int program_join(struct program *p, const struct program_ask *ask, struct err *e);
/* Of a worker that takes the seat of one that died, in place of program_join(): starts the program,
 * which describes itself. Once the rank has reached the keeper, under a server program_go_on() lets
 * it begin: at `step` of `epoch`, with its own state of the last checkpoint. Without a server
 * program_await() gets it ready to begin where another rank stands (engine_ops.enter), in a run of
 * so many epochs, which is open or not. After an error the caller calls program_leave(). */
int program_return(struct program *p, const struct program_ask *ask, struct err *e);
int program_go_on(struct program *p, int64_t epoch, int64_t step, struct err *e);
int program_await(struct program *p, double epochs, bool open, struct err *e);
/* Of what rank 0's program said of itself: equal where programs fit each other. */
uint64_t program_hash(const struct program *p);
/* The epochs of the run as far as they are known; 0: the program's loop decides. */
double program_epochs(const struct program *p);
/* What it brought, for whoever watches. */
void program_joined(const struct program *p, const struct jobspec *spec, struct joined *out);
/* The engine of a worker whose program has joined; trainer_run frees it. NULL: memory ran out. */
struct engine *program_engine(struct program *p, struct trainer_env *env, struct err *e);
void program_leave(struct program *p);
/* Is this error the end of the program by its own doing (child_ended_itself)? Not a hang. */
bool program_ended_itself(struct program *p, const struct err *e);
/* After an error of the program before its first step: where the run begins, and the program has
 * ended by itself (a wrong argument, an exception), another attempt would meet the same, and the
 * code becomes ERR_INVALID. */
void program_judge(struct program *p, struct err *e);

/* A packet of this type, everything else zero. */
struct wire_message program_message(uint32_t type, uint32_t flags);
/* The rank's phase from now on. A rank that waits for its program is alive, whatever the program
 * does: the rank itself finds a program that hangs (link.h), so it goes on to tell progress. */
void program_phase(struct program *p, enum phase phase);
/* Tells the phase once more; ctx: the program. */
void program_tell_phase(void *ctx);
enum aside {
    ASIDE_NOT, /* m is the caller's, and so is fd */
    ASIDE_DONE /* m may come at any time (EPOCHS) and is dealt with; fd is closed */
};
/* Deals with what a program may say at any time. Returns enum aside; negative after FAILED: the
 * program cannot go on, and fd is closed. */
int program_aside(struct program *p, const struct wire_message *m, int fd, struct err *e);

/* The program as a device (device.c): `settle` is called before parameters are read, `step` when a
 * strategy has the summed gradients where the optimizer finds them. */
struct program_device {
    struct device base;
    void *ctx;
    int (*settle)(void *ctx, struct err *e);
    void (*step)(void *ctx, double scale);
    char name[128];
};
void program_device_init(struct program_device *d, struct program *p);
void program_replica_init(struct dev_replica *r, struct program_device *d, const struct program *p,
                          const struct jobspec *spec);

#endif

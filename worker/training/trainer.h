/* The trainer runs one rank from its start to the end of the job, in the same way over MPI and on a
 * virtual clock. The struct holds all of its state, so one process can run many trainers.
 */
#ifndef WORKER_TRAINING_TRAINER_H
#define WORKER_TRAINING_TRAINER_H

#include "worker/data/dataset.h"
#include "worker/exchange/strategy.h"
#include "worker/telemetry.h"

struct engine; /* worker/engine.h */
struct seat;   /* worker/exchange/seat.h */

struct trainer_env {
    const struct jobspec *spec;
    const struct dataset *data; /* keeper and servers need only its counts (dataset_peek) */
    struct device *dev;         /* NULL on keeper and servers, and if a program computes */
    struct engine *engine;      /* NULL: our own network's. trainer_run frees it */
    struct comm *comm;
    struct telemetry *telemetry;
    int first_sizes[SPEC_WORKERS];
    int first_version;
    double speeds[SPEC_WORKERS];
    bool virtual_time; /* step times come from the transport; programs are built at once */
    /* start (keeper only; others receive it): parameters come from here */
    const char *job_dir;   /* where checkpoints and artifacts go (keeper); NULL: none are written */
    const char *init_path; /* resolved path of `init`, or NULL */
    int ahead;             /* as program.ahead, for servers */
    bool keeps_own;        /* as rank_env.keeps_own */
    bool outlives_worker;  /* rank_env.lost is asked */
    bool takes_back;       /* rank_env.seats is asked too */
    bool open;             /* as program.open, of the keeper */
    /* For a worker that takes a dead worker's seat: reaches the keeper, and returns its answer.
     * NULL: the worker starts with the attempt. */
    int (*join)(void *step_ctx, struct seat *out, struct err *e);
    void (*joined)(void *step_ctx); /* after join: the worker takes part */
    char data_digest[68];           /* of rank 0's data set or program; trainer and keeper set it */
    const float *first_params, *first_stats; /* of a user's program; NULL: random ones */
    const json_t *order;                     /* of gradients at the server, see rank_env; or NULL */
    void (*step_begin)(void *ctx);           /* before compute; may be NULL */
    /* The node's reference time was measured. Sets *p to what a step really takes (emulated
     * slowdown). May be NULL. */
    void (*calibrated)(void *ctx, struct profile *p);
    void *step_ctx;
};
/* Runs to the end. Returns enum run_outcome, or negative. Workers call it on ranks < W. */
int trainer_run(struct trainer_env *env, struct err *e);
/* For rank W and up. Reads checkpoint or init, hands out the start, serves, writes checkpoints and
 * artifacts. */
int keeper_run(struct trainer_env *env, struct err *e);

#endif
